//! The conversation with one client: each incoming packet goes to the process that it concerns
//! (`family`), and stops go out. Must never end anything but itself because of a client's input.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{DisconnectReason, GdbStubBuilder};
use relive_engine::Failure;
use relive_engine::timeline::Interrupter;

use crate::debuggee::Debuggee;
use crate::family::{Family, Route};
use crate::link::{Link, Wire};
use crate::order::Reason;
use crate::packets;
use crate::stream::Stream;
use crate::thread_locals::Asked;

/// Bytes of the longest packet: all registers fit, and gdb reads memory in larger portions.
const PACKET: usize = 64 << 10;

/// The answer to an invalid packet: EINVAL.
const NO_SENSE: &str = "E16";

/// How a conversation ended.
pub enum Ended {
    /// The client has asked to end the program.
    Killed,
    /// It has disconnected, or does not speak this protocol.
    Gone,
}

/// The reason why the conversation cannot go on.
enum Wrong {
    /// The replay.
    Replay(Failure),
    /// A packet that the library rejects.
    Packet,
    /// The connection, or its input.
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
        if e.is_connection_error() {
            return Self::Client;
        }
        match e.into_target_error() {
            Some(failure) => Self::Replay(failure),
            None => Self::Packet,
        }
    }
}

/// The library's state: it waits for a packet, runs the process, and so on.
type State<'a> = GdbStubStateMachine<'a, Debuggee, Wire>;

/// Beginnings of the packets that a new instance of the library must hear again: the last one of
/// each kind.
const AGREED: [&[u8]; 5] = [b"qSupported", b"QStartNoAckMode", b"!", b"Hg", b"Hc"];

/// Packets of these kinds that the library has understood.
#[derive(Default)]
struct Agreed([Option<Vec<u8>>; AGREED.len()]);

impl Agreed {
    fn note(&mut self, unit: &[u8]) {
        let body = packets::body(unit).unwrap_or_default();
        if let Some(kind) = AGREED.iter().position(|start| body.starts_with(start)) {
            self.0[kind] = Some(unit.to_vec());
        }
    }
}

/// The client as the source of interrupts during a run and the sink of the guest's output.
struct Client<'l>(&'l mut Link);

impl Interrupter for Client<'_> {
    fn wanted(&mut self) -> bool {
        self.0.has_input()
    }

    fn output(&mut self, _: u8, bytes: &[u8]) {
        // If the connection is gone, the next read reports it.
        let _ = self.0.say(bytes);
    }
}

/// Talks to a client until it disconnects.
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
    let link = Rc::new(RefCell::new(Link::new(stream)));
    family.first().interrupt = Some(Rc::clone(&link.borrow().interrupt));
    let mut agreed = Agreed::default();
    let mut state = begin(family, &link)?;
    loop {
        state = match state {
            State::Idle(idle) => {
                let unit = link.borrow_mut().unit()?;
                let Some(unit) = received(&link, unit)? else {
                    state = State::Idle(idle);
                    continue;
                };
                let to = route(family, &mut link.borrow_mut(), &unit)?;
                match to {
                    Some(member) => {
                        let mut state = State::Idle(idle);
                        if let Some(body) = family.take_unheard(member) {
                            let packet = packets::packet(&String::from_utf8_lossy(&body));
                            state = inform(state, family, &link, member, &packet)?;
                        }
                        match feed(state, family, member, &unit) {
                            Ok(state) => {
                                agreed.note(&unit);
                                state
                            }
                            Err(Wrong::Packet) if packets::body(&unit).is_some() => {
                                refuse(family, &link, member, &agreed)?
                            }
                            Err(wrong) => return Err(wrong),
                        }
                    }
                    None => State::Idle(idle),
                }
            }
            State::Running(running) => {
                let member = family.current();
                let asked = link.borrow().has_input();
                if asked {
                    let unit = link.borrow_mut().unit()?;
                    feed(State::Running(running), family, member, &unit)?
                } else {
                    let stopped = go(family, member, &mut link.borrow_mut())?;
                    match stopped {
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

/// Lets a process go on as the client has ordered. `None`: the client has sent something.
fn go(family: &mut Family, member: usize, link: &mut Link) -> Result<Option<Reason>, Wrong> {
    family.get(member).learn();
    let reason = family.get(member).go(&mut Client(link));
    let reason = reason.map_err(Wrong::Replay)?;
    let debuggee = family.get(member);
    tell_news(debuggee, link)?;
    link.told = debuggee.told.take();
    if let Some(pid) = debuggee.forked.take() {
        family.tell(pid);
    }
    Ok(reason)
}

/// A new instance of the library, which has heard nothing yet.
fn begin<'a>(family: &mut Family, link: &Rc<RefCell<Link>>) -> Result<State<'a>, Wrong> {
    let stub = GdbStubBuilder::new(Wire(Rc::clone(link))).packet_buffer_size(PACKET);
    let stub = stub.build().map_err(|_| Wrong::Client)?;
    Ok(stub.run_state_machine(family.first())?)
}

/// Handles input that concerns the connection itself, and returns the rest.
fn received(link: &Rc<RefCell<Link>>, unit: Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    let link = &mut *link.borrow_mut();
    if unit == b"-" {
        return link.again().map(|()| None);
    }
    if packets::is_garbled(&unit) && !link.silent {
        return link.ask_again().map(|()| None);
    }
    Ok(Some(packets::mended(unit)))
}

/// Answers a packet that made the library give up with an error. A new instance replaces the
/// library, and hears the agreed settings again.
fn refuse<'a>(
    family: &mut Family,
    link: &Rc<RefCell<Link>>,
    member: usize,
    agreed: &Agreed,
) -> Result<State<'a>, Wrong> {
    link.borrow_mut().forget();
    let mut state = begin(family, link)?;
    for packet in agreed.0.iter().flatten() {
        state = inform(state, family, link, member, packet)?;
    }
    link.borrow_mut().answer(&packets::packet(NO_SENSE))?;
    Ok(state)
}

fn tell_news(debuggee: &mut Debuggee, link: &mut Link) -> io::Result<()> {
    for line in std::mem::take(&mut debuggee.news) {
        link.say(format!("[{line}]\n").as_bytes())?;
    }
    Ok(())
}

/// The member that a packet is for; `None`: it has been answered.
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
    let locate = family.locate;
    let debuggee = family.get(member);
    if let Some(asked) = Asked::of(body) {
        let found = debuggee.thread_local(&asked, locate);
        let answer = found.map_or("E01".to_owned(), |at| format!("{at:x}"));
        return link.answer(&packets::packet(&answer)).map(|()| None);
    }
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

/// Hands the library a packet whose answer the client already has.
fn inform<'a>(
    state: State<'a>,
    family: &mut Family,
    link: &Rc<RefCell<Link>>,
    member: usize,
    packet: &[u8],
) -> Result<State<'a>, Wrong> {
    link.borrow_mut().quiet = true;
    let state = feed(state, family, member, packet);
    link.borrow_mut().quiet = false;
    state
}

/// Hands a packet to the library.
fn feed<'a>(
    mut state: State<'a>,
    family: &mut Family,
    member: usize,
    unit: &[u8],
) -> Result<State<'a>, Wrong> {
    for byte in unit {
        let debuggee = family.get(member);
        state = match state {
            State::Idle(idle) => idle.incoming_data(debuggee, *byte)?,
            State::Running(running) => running.incoming_data(debuggee, *byte)?,
            // The rest of an invalid packet.
            other => return Ok(other),
        };
    }
    Ok(state)
}
