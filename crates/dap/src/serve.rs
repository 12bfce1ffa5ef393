//! One session: the requests of a client, and gdb's records, in one loop.
//!
//! Requests are handled in turn. A handler that waits for gdb (`ask`) also takes other events:
//! gdb's records at once, further requests later. A client that disconnects ends the wait.

use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};

use serde_json::{Value as Json, json};

use crate::answers::{Answer, Refusal, Request, response};
use crate::client::{self, Pen};
use crate::event::Event;
use crate::run::Run;
use crate::session::{BEAT, Handler, Session};
use crate::{capabilities, wire};

/// The state that a request needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    /// Any.
    Nothing,
    /// After `initialize`.
    Initialize,
    /// A recording.
    Launch,
    /// A recording that is stopped, if only for this request.
    Halt,
    /// A recording that is stopped.
    Stop,
}

/// All supported requests.
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

/// Serves one client to its end. `relive` is the command whose `debug` is started. The process must
/// ignore SIGPIPE: a client that does not read any more is noticed by the error.
///
/// # Errors
/// When the client does not speak the protocol, or cannot be read.
pub fn serve(
    relive: &Path,
    input: Box<dyn Read + Send>,
    output: Box<dyn Write + Send>,
) -> Result<(), wire::Error> {
    let (sender, events) = channel();
    client::listen(input, sender.clone());
    let mut session = Session::new(relive, Pen::new(output), events, sender);
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

    /// Answers a message that is no request.
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

    /// Reports how the recorded process ended, if its end was reached.
    fn say_goodbye(&mut self) {
        if let Some(code) = self.exit_code.take() {
            self.after.push(("exited", json!({ "exitCode": code })));
        }
    }
}
