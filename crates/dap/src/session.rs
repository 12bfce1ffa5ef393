//! What a session knows. What it does lies in the files above, by the kind of request.

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

/// How often it is looked whether gdb's processes are still there.
pub const BEAT: Duration = Duration::from_millis(500);

/// Does a request.
pub type Handler = fn(&mut Session, &Json) -> Answer;

/// A session.
pub struct Session {
    /// The command whose `debug` is started.
    pub(crate) relive: PathBuf,
    pub(crate) pen: Pen,
    pub(crate) events: Receiver<Event>,
    pub(crate) sender: Sender<Event>,
    pub(crate) waiting: VecDeque<Event>,
    /// Requests that wait for a stop.
    pub(crate) deferred: Vec<Event>,
    pub(crate) gdb: Option<Gdb>,
    pub(crate) initialized: bool,
    /// The client has said everything that it wanted to say before the start.
    pub(crate) configured: bool,
    /// Lines count from 1, as gdb's do; 0 where the client's count from 0.
    pub(crate) first_line: i64,
    /// What the recording does, if it does not stand still.
    pub(crate) running: Option<Run>,
    /// What it did last.
    pub(crate) ran: Option<Run>,
    /// The last stop, as long as the client does not know it.
    pub(crate) stop: Option<Value>,
    /// The last stop that the client knows.
    pub(crate) told: Option<Value>,
    /// It was interrupted for the client.
    pub(crate) interrupted: bool,
    /// It has stopped because it goes no further.
    pub(crate) at_an_end: bool,
    /// What gdb says to a command of its console.
    pub(crate) heard: Option<String>,
    /// What the replay and gdb said last to the person.
    pub(crate) said: Vec<String>,
    /// Events that follow the answer to the present request.
    pub(crate) after: Vec<(&'static str, Json)>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) frames: Handles<Frame>,
    pub(crate) containers: Handles<Container>,
    /// gdb's names for variables that have been looked at.
    pub(crate) objects: Vec<String>,
    pub(crate) breakpoints: Breakpoints,
    /// Whether to stop before the recording goes on at all.
    pub(crate) stop_on_entry: bool,
    /// How the recorded process ended, once that is known.
    pub(crate) exit_code: Option<i64>,
    /// The client wants to go.
    pub(crate) leaving: bool,
    /// Nothing is served any more.
    pub(crate) over: bool,
}

impl Session {
    /// A session that nothing has happened in.
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
