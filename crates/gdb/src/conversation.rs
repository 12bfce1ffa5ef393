//! The conversation with one client: packets come in, each goes to the process that it is about
//! (`family`), and stops go out. Must never end anything but itself because of what a client
//! sends.

use std::io;
use std::rc::Rc;

use gdbstub::stub::state_machine::GdbStubStateMachine as State;
use gdbstub::stub::{DisconnectReason, GdbStubBuilder};
use relive_engine::Failure;
use relive_engine::timeline::Wanted;

use crate::debuggee::Debuggee;
use crate::family::{Family, Route};
use crate::link::{Link, Stream};
use crate::packets;

/// Bytes of the longest packet: all registers fit, and gdb reads memory in larger portions.
const PACKET: usize = 64 << 10;

/// How a conversation ended.
pub enum Ended {
    /// The client has asked to end the program.
    Killed,
    /// It has gone, or was no client of this protocol.
    Gone,
}

/// Why it cannot go on.
enum Wrong {
    /// The replay.
    Replay(Failure),
    /// The connection, or what came over it.
    Client,
}

impl From<io::Error> for Wrong {
    fn from(_: io::Error) -> Self {
        Self::Client
    }
}

type Error = gdbstub::stub::GdbStubError<Failure, io::Error>;

impl From<Error> for Wrong {
    fn from(e: Error) -> Self {
        match e.into_target_error() {
            Some(failure) => Self::Replay(failure),
            None => Self::Client,
        }
    }
}

/// The client as somebody who may interrupt a run, and to whom the guest's output is shown.
struct Client<'l>(&'l mut Link);

impl Wanted for Client<'_> {
    fn wanted(&mut self) -> bool {
        self.0.has_input()
    }

    fn output(&mut self, _: u8, bytes: &[u8]) {
        // If the connection is gone, the next look at it says so.
        let _ = self.0.say(bytes);
    }
}

/// Talks to a client until it goes.
///
/// # Errors
/// The replay itself cannot go on.
pub fn converse(family: &mut Family, stream: Stream) -> Result<Ended, Failure> {
    let outcome = talk(family, stream);
    match outcome {
        Ok(DisconnectReason::Kill) => Ok(Ended::Killed),
        Err(Wrong::Replay(failure)) => Err(failure),
        _ if family.first().killed => Ok(Ended::Killed),
        _ => Ok(Ended::Gone),
    }
}

fn talk(family: &mut Family, stream: Stream) -> Result<DisconnectReason, Wrong> {
    let link = Link::new(stream);
    family.first().interrupt = Some(Rc::clone(&link.interrupt));
    let stub = GdbStubBuilder::new(link).packet_buffer_size(PACKET);
    let stub = stub.build().map_err(|_| Wrong::Client)?;
    let mut state = stub.run_state_machine(family.first())?;
    loop {
        state = match state {
            State::Idle(mut idle) => {
                let unit = idle.borrow_conn().unit()?;
                match route(family, idle.borrow_conn(), &unit)? {
                    Some(member) => {
                        let mut state = State::Idle(idle);
                        if let Some(body) = family.take_unheard(member) {
                            state = inform(state, family, member, &body)?;
                        }
                        feed(state, family, member, &unit)?
                    }
                    None => State::Idle(idle),
                }
            }
            State::Running(mut running) => {
                let member = family.current();
                let link = running.borrow_conn();
                if link.has_input() {
                    let unit = link.unit()?;
                    feed(State::Running(running), family, member, &unit)?
                } else {
                    family.get(member).learn();
                    let reason = family.get(member).go(&mut Client(link));
                    let reason = reason.map_err(Wrong::Replay)?;
                    let debuggee = family.get(member);
                    tell_news(debuggee, link)?;
                    link.told = debuggee.told.take();
                    if let Some(pid) = debuggee.forked.take() {
                        family.tell(pid);
                    }
                    match reason {
                        Some(reason) => running.report_stop(family.get(member), reason)?,
                        None => State::Running(running),
                    }
                }
            }
            State::CtrlCInterrupt(interrupt) => {
                let debuggee = family.get(family.current());
                let reason = debuggee.interrupted();
                interrupt.interrupt_handled(debuggee, Some(reason))?
            }
            State::Disconnected(end) => return Ok(end.get_reason()),
        };
    }
}

fn tell_news(debuggee: &mut Debuggee, link: &mut Link) -> io::Result<()> {
    for line in std::mem::take(&mut debuggee.news) {
        link.say(format!("[{line}]\n").as_bytes())?;
    }
    Ok(())
}

/// Who a packet is for; `None`: it has been answered.
fn route(family: &mut Family, link: &mut Link, unit: &[u8]) -> io::Result<Option<usize>> {
    let Some(body) = packets::body(unit) else {
        return Ok(Some(family.current()));
    };
    link.silent |= body == b"QStartNoAckMode";
    let to = family.route(body);
    let member = match to {
        Route::To(member) => member,
        Route::Answer(answer) => return link.answer(&answer).map(|()| None),
    };
    let debuggee = family.get(member);
    if let Some((at, conditions)) = packets::conditions(body) {
        debuggee.note(at, conditions, body.len());
    }
    if let Some((offset, len)) = packets::asks_siginfo(body) {
        let info = debuggee.siginfo();
        let answer = match info.as_deref() {
            Some(info) => packets::portion(info, offset, len),
            None => packets::packet("E01"),
        };
        return link.answer(&answer).map(|()| None);
    }
    Ok(Some(member))
}

/// Hands a packet to the library that the client has had an answer to.
fn inform<'a>(
    state: State<'a, Debuggee, Link>,
    family: &mut Family,
    member: usize,
    body: &[u8],
) -> Result<State<'a, Debuggee, Link>, Wrong> {
    let quiet = |mut state: State<'a, Debuggee, Link>, on| {
        if let State::Idle(idle) = &mut state {
            idle.borrow_conn().quiet = on;
        }
        state
    };
    let state = quiet(state, true);
    let packet = packets::packet(&String::from_utf8_lossy(body));
    let state = feed(state, family, member, &packet)?;
    Ok(quiet(state, false))
}

/// Hands a packet to the library.
fn feed<'a>(
    mut state: State<'a, Debuggee, Link>,
    family: &mut Family,
    member: usize,
    unit: &[u8],
) -> Result<State<'a, Debuggee, Link>, Wrong> {
    for byte in unit {
        let debuggee = family.get(member);
        state = match state {
            State::Idle(idle) => idle.incoming_data(debuggee, *byte)?,
            State::Running(running) => running.incoming_data(debuggee, *byte)?,
            // The rest of what is no packet.
            other => return Ok(other),
        };
    }
    Ok(state)
}
