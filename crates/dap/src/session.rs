//! One session: the requests of a client, and gdb's records, in one loop.
//!
//! Requests are done one after the other. Whoever waits for gdb (`ask`) also takes what comes
//! meanwhile: gdb's records at once, further requests later. A client that leaves ends the wait.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::answers::{Answer, Refusal, Request, response};
use crate::breakpoints::Breakpoints;
use crate::client::{self, Pen};
use crate::gdb::Gdb;
use crate::handles::Handles;
use crate::mi::{Record, Value};
use crate::resume::Run;
use crate::stack::Frame;
use crate::threads::Thread;
use crate::variables::Container;
use crate::{capabilities, wire};

/// How often it is looked whether gdb's processes are still there.
pub const BEAT: Duration = Duration::from_millis(500);

/// What happens.
pub enum Event {
    /// The client asks for something.
    Request(Request),
    /// The client sent a message that is no request: its number, and what is wrong.
    Nonsense(i64, String),
    /// The client is gone, or does not speak the protocol.
    ClientGone(Option<wire::Error>),
    /// gdb says something to us.
    Gdb(Record),
    /// gdb's output is closed.
    GdbGone,
    /// gdb or Relive say something to the person.
    Said(String),
    /// They will say no more.
    AllSaid,
}

/// What a request needs to be answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Nothing,
    /// That `initialize` was there.
    Initialize,
    /// A recording.
    Launch,
    /// A recording that stands still, if only for a moment.
    Halt,
    /// A recording that stands still.
    Stop,
}

/// Does a request.
pub type Handler = fn(&mut Session, &Json) -> Answer;

/// Every request that is known.
const REQUESTS: &[(&str, Needs, Handler)] = {
    use Needs::{Halt, Initialize, Launch, Nothing, Stop};
    &[
        ("initialize", Nothing, Session::initialize),
        ("launch", Initialize, Session::launch),
        ("attach", Initialize, Session::launch),
        ("configurationDone", Launch, Session::configuration_done),
        ("setBreakpoints", Halt, Session::set_breakpoints),
        (
            "setFunctionBreakpoints",
            Halt,
            Session::set_function_breakpoints,
        ),
        (
            "setInstructionBreakpoints",
            Halt,
            Session::set_instruction_breakpoints,
        ),
        (
            "setExceptionBreakpoints",
            Halt,
            Session::set_exception_breakpoints,
        ),
        ("dataBreakpointInfo", Stop, Session::data_breakpoint_info),
        ("setDataBreakpoints", Halt, Session::set_data_breakpoints),
        ("threads", Launch, Session::list_threads),
        ("stackTrace", Stop, Session::stack_trace),
        ("scopes", Stop, Session::scopes),
        ("variables", Stop, Session::variables),
        ("evaluate", Stop, Session::evaluate),
        ("exceptionInfo", Stop, Session::exception_info),
        ("source", Launch, Session::source),
        ("readMemory", Stop, Session::read_memory),
        ("disassemble", Stop, Session::disassemble),
        ("continue", Stop, Session::go_on),
        ("reverseContinue", Stop, Session::go_back),
        ("next", Stop, Session::next),
        ("stepIn", Stop, Session::step_in),
        ("stepOut", Stop, Session::step_out),
        ("stepBack", Stop, Session::step_back),
        ("pause", Launch, Session::pause),
        ("restart", Stop, Session::restart),
        ("disconnect", Nothing, Session::disconnect),
        ("terminate", Nothing, Session::terminate),
    ]
};

/// A session.
pub struct Session {
    /// The command whose `debug` is started.
    pub(crate) relive: PathBuf,
    pub(crate) pen: Pen,
    pub(crate) events: Receiver<Event>,
    pub(crate) sender: Sender<Event>,
    pub(crate) waiting: VecDeque<Event>,
    /// Requests that wait for a stop.
    deferred: Vec<Event>,
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
    over: bool,
}

/// Serves one client to its end. `relive` is the command whose `debug` is to be started. The
/// process must ignore SIGPIPE: who does not read any more is noticed by the error.
///
/// # Errors
/// The client does not speak the protocol, or cannot be read.
pub fn serve(
    relive: &Path,
    input: Box<dyn Read + Send>,
    output: Box<dyn Write + Send>,
) -> Result<(), wire::Error> {
    let (sender, events) = channel();
    client::listen(input, sender.clone());
    let mut session = Session {
        relive: relive.to_owned(),
        pen: Pen::new(output),
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
    };
    let ended = session.run();
    if let Some(gdb) = session.gdb.take() {
        gdb.end();
    }
    ended
}

impl Session {
    fn run(&mut self) -> Result<(), wire::Error> {
        while !self.over {
            if self.running.is_none()
                && self.configured
                && let Some(stop) = self.stop.take()
            {
                self.tell_stop(stop);
                self.waiting.extend(self.deferred.drain(..));
                continue;
            }
            let event = match self.waiting.pop_front() {
                Some(event) => event,
                None => match self.events.recv_timeout(BEAT) {
                    Ok(event) => event,
                    Err(RecvTimeoutError::Timeout) => {
                        self.look_after_gdb();
                        continue;
                    }
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                },
            };
            match event {
                Event::Request(request) => self.request(request),
                Event::Nonsense(seq, what) => self.nonsense(seq, &what),
                Event::ClientGone(None) => return Ok(()),
                Event::ClientGone(Some(error)) => {
                    self.nonsense(0, &error.to_string());
                    return Err(error);
                }
                Event::Gdb(record) => self.note(record),
                Event::GdbGone => self.lose_gdb(),
                Event::Said(line) => self.hear(line),
                Event::AllSaid => {}
            }
        }
        Ok(())
    }

    /// Answers what is no request.
    fn nonsense(&mut self, seq: i64, what: &str) {
        let request = Request {
            seq,
            command: String::new(),
            arguments: Json::Null,
        };
        self.pen.write(response(&request, &Err(what.into())));
    }

    fn request(&mut self, request: Request) {
        let found = REQUESTS.iter().find(|r| r.0 == request.command);
        let answer = match found {
            Some((_, Needs::Halt, handler)) if self.running.is_some() => {
                if !self.running.is_some_and(Run::may_be_interrupted) {
                    self.deferred.push(Event::Request(request));
                    return;
                }
                self.halted(*handler, &request.arguments)
            }
            Some((_, needs, handler)) => self
                .require(*needs)
                .and_then(|()| handler(self, &request.arguments)),
            None => Err(format!("relive does not know '{}'", request.command).into()),
        };
        self.pen.write(response(&request, &answer));
        for (event, body) in std::mem::take(&mut self.after) {
            self.pen.event(event, body);
        }
    }

    fn require(&self, needs: Needs) -> Result<(), Refusal> {
        if needs != Needs::Nothing && !self.initialized {
            return Err("initialize comes first".into());
        }
        if matches!(needs, Needs::Launch | Needs::Halt | Needs::Stop) && self.gdb.is_none() {
            return Err("there is no recording: launch comes first".into());
        }
        if needs == Needs::Stop && self.running.is_some() {
            return Err("notStopped".into());
        }
        Ok(())
    }

    fn initialize(&mut self, arguments: &Json) -> Answer {
        if self.initialized {
            return Err("initialize comes once".into());
        }
        self.initialized = true;
        self.first_line = match arguments["linesStartAt1"].as_bool() {
            Some(false) => 0,
            _ => 1,
        };
        Ok(capabilities::capabilities())
    }

    fn disconnect(&mut self, _: &Json) -> Answer {
        self.over = true;
        self.say_goodbye();
        Ok(Json::Null)
    }

    fn terminate(&mut self, _: &Json) -> Answer {
        self.leaving = false;
        if let Some(gdb) = self.gdb.take() {
            gdb.end();
        }
        self.say_goodbye();
        self.after.push(("terminated", json!({})));
        Ok(Json::Null)
    }

    /// If the end of the recorded process was seen, says how it ended.
    fn say_goodbye(&mut self) {
        if let Some(code) = self.exit_code.take() {
            self.after.push(("exited", json!({ "exitCode": code })));
        }
    }
}
