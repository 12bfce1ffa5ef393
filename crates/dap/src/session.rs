//! State of a session. Its behaviour lies in the other files, by kind of request.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use serde_json::Value as Json;

use crate::answers::Answer;
use crate::breakpoints::Breakpoints;
use crate::client::Pen;
use crate::event::Event;
use crate::gdb::Gdb;
use crate::handles::Handles;
use crate::mi::Value;
use crate::program::{Container, Frame, Thread};
use crate::run::Run;

/// Interval of checks whether gdb's processes still exist.
pub const BEAT: Duration = Duration::from_millis(500);

/// Handles a request.
pub type Handler = fn(&mut Session, &Json) -> Answer;

/// A session.
pub struct Session {
    /// The command whose `debug` is started.
    pub(crate) relive: PathBuf,
    pub(crate) pen: Pen,
    pub(crate) events: Receiver<Event>,
    pub(crate) sender: Sender<Event>,
    pub(crate) waiting: VecDeque<Event>,
    /// Requests deferred until a stop.
    pub(crate) deferred: Vec<Event>,
    pub(crate) gdb: Option<Gdb>,
    pub(crate) initialized: bool,
    /// The client has finished its configuration before the start.
    pub(crate) configured: bool,
    /// Lines count from 1, as gdb's do; 0 where the client's count from 0.
    pub(crate) first_line: i64,
    /// The present run, unless the recording is stopped.
    pub(crate) running: Option<Run>,
    /// The last run.
    pub(crate) ran: Option<Run>,
    /// The last stop, until the client is told of it.
    pub(crate) stop: Option<Value>,
    /// The last stop that the client was told of.
    pub(crate) told: Option<Value>,
    /// It was interrupted for the client.
    pub(crate) interrupted: bool,
    /// It has stopped at an end of the recording.
    pub(crate) at_an_end: bool,
    /// gdb's output for a command of its console.
    pub(crate) heard: Option<String>,
    /// The last messages of the replay and gdb for the user.
    pub(crate) said: Vec<String>,
    /// Events to send after the answer to the present request.
    pub(crate) after: Vec<(&'static str, Json)>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) frames: Handles<Frame>,
    pub(crate) containers: Handles<Container>,
    /// gdb's names of the variable objects in use.
    pub(crate) objects: Vec<String>,
    pub(crate) breakpoints: Breakpoints,
    /// Whether to stop before the recording runs at all.
    pub(crate) stop_on_entry: bool,
    /// How the recorded process ended, once that is known.
    pub(crate) exit_code: Option<i64>,
    /// The client has asked to disconnect.
    pub(crate) leaving: bool,
    /// The session is over.
    pub(crate) over: bool,
}

impl Session {
    /// A new session.
    pub(crate) fn new(
        relive: &Path,
        pen: Pen,
        events: Receiver<Event>,
        sender: Sender<Event>,
    ) -> Self {
        Self {
            relive: relive.to_owned(),
            pen,
            events,
            sender,
            waiting: VecDeque::new(),
            deferred: Vec::new(),
            gdb: None,
            initialized: false,
            configured: false,
            first_line: 1,
            running: None,
            ran: None,
            stop: None,
            told: None,
            interrupted: false,
            at_an_end: false,
            heard: None,
            said: Vec::new(),
            after: Vec::new(),
            threads: Vec::new(),
            frames: Handles::default(),
            containers: Handles::default(),
            objects: Vec::new(),
            breakpoints: Breakpoints::default(),
            stop_on_entry: false,
            exit_code: None,
            leaving: false,
            over: false,
        }
    }
}
