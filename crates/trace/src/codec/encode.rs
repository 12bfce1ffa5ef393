//! Events to bytes. Must never allocate beside the caller's buffer.

use super::tags::{flag, order, parts, tag};
use crate::cursor::BLOB_MAX;
use crate::event::{Event, Kind, Syscall, TapeId};
use crate::readings::Readings;
use crate::refs::Refs;
use crate::short::Short;
use crate::varint;
use crate::writes::Writes;

/// Encodes one tape's events in order.
#[derive(Debug, Clone, Default)]
pub struct Encoder {
    pub(crate) last_ticks: u64,
}

impl Encoder {
    /// At the beginning of a tape.
    pub fn new() -> Self {
        Self::default()
    }

    /// Behind an event at this tick.
    pub(crate) fn at(ticks: u64) -> Self {
        Self { last_ticks: ticks }
    }

    /// Appends `event` to `out`.
    ///
    /// # Panics
    /// When an [`Kind::Instr`] claims more than four values or a byte string is longer than
    /// [`BLOB_MAX`]: both are errors of the caller and would make the tape unreadable.
    pub fn encode(&mut self, event: &Event<'_>, out: &mut Vec<u8>) {
        let delta = event.ticks.wrapping_sub(self.last_ticks);
        let mut short = Short::new();
        let mut tail: &[u8] = &[];
        let mut head = |tag: u8| {
            let flags = if event.digest == 0 { 0 } else { flag::DIGEST };
            short.byte(tag | flags);
            short.int(delta);
            if event.digest != 0 {
                short.fixed(event.digest.to_le_bytes());
            }
        };
        match &event.kind {
            Kind::Start(start) => {
                head(tag::START);
                short.byte(start.origin as u8);
                let TapeId { process, thread } = start.parent;
                for number in [process, thread, start.tid, start.pid] {
                    short.int(number.into());
                }
            }
            Kind::Syscall(syscall) => {
                head(syscall_head(syscall));
                put_syscall(short, syscall, out);
                self.last_ticks = event.ticks;
                return;
            }
            Kind::Signal(signal) => {
                head(tag::SIGNAL);
                short.int(signal.steps.into());
                short.byte(signal.signo);
                short.int(blob_len(signal.siginfo));
                tail = signal.siginfo;
            }
            Kind::Switch { steps } => {
                head(tag::SWITCH);
                short.int((*steps).into());
            }
            Kind::Instr { op, values, n } => {
                assert!(*n <= 4, "an instruction logs at most four values");
                head(tag::INSTR);
                short.fixed([*op, *n]);
                for value in &values[..usize::from(*n)] {
                    short.int(*value);
                }
            }
            Kind::Exec(image) => {
                head(tag::EXEC);
                short.int(blob_len(image));
                tail = image;
            }
            Kind::Turn { thread } => {
                head(tag::TURN);
                short.int((*thread).into());
            }
            Kind::Handover {
                thread,
                process,
                turn,
            } => {
                head(tag::HANDOVER);
                short.int((*thread).into());
                short.int((*process).into());
                short.int(turn.map_or(0, |turn| u64::from(turn) + 1));
            }
            Kind::After { process, turn } => {
                head(tag::AFTER);
                short.int((*process).into());
                short.int(turn.map_or(0, |turn| u64::from(turn) + 1));
            }
            Kind::Memory(writes) => {
                head(tag::MEMORY);
                short.int(writes_len(writes));
                out.extend_from_slice(short.as_slice());
                writes.put(out);
                self.last_ticks = event.ticks;
                return;
            }
            Kind::Readings {
                full,
                since,
                readings,
            } => {
                head(tag::READINGS);
                short.byte(u8::from(*full));
                short.int(*since);
                out.extend_from_slice(short.as_slice());
                put_readings(readings, out);
                self.last_ticks = event.ticks;
                return;
            }
            Kind::Checksum { at, value } => {
                head(tag::CHECKSUM);
                short.int(*at);
                short.fixed(value.to_le_bytes());
            }
            Kind::Moment { event, since, took } => {
                head(tag::ORDER);
                short.byte(order::MOMENT + u8::from(*event));
                short.int(*since);
                short.int(*took);
            }
            Kind::Edge {
                at,
                event,
                thread,
                op,
            } => {
                head(tag::ORDER);
                short.byte(order::EDGE + u8::from(*event));
                short.int(*at);
                short.int((*thread).into());
                short.int(*op);
            }
            Kind::Mark { event, pc } => {
                head(tag::ORDER);
                short.byte(order::MARK + u8::from(*event));
                if !event {
                    short.int(*pc);
                }
            }
            Kind::Behind {
                event,
                thread,
                mark,
            } => {
                head(tag::ORDER);
                short.byte(order::BEHIND + u8::from(*event));
                short.int((*thread).into());
                short.int(*mark);
            }
            Kind::End { how, code, steps } => {
                head(tag::END);
                short.byte(*how as u8);
                short.int(varint::zigzag((*code).into()));
                short.int((*steps).into());
            }
        }
        out.extend_from_slice(short.as_slice());
        out.extend_from_slice(tail);
        self.last_ticks = event.ticks;
    }
}

/// The first byte of a syscall, without the flag for a digest.
fn syscall_head(syscall: &Syscall<'_>) -> u8 {
    let mut head = tag::SYSCALL;
    if syscall.switched {
        head |= flag::SWITCHED;
    }
    if syscall.order.is_some() {
        head |= flag::ORDER;
    }
    head
}

fn put_syscall(mut short: Short, syscall: &Syscall<'_>, out: &mut Vec<u8>) {
    let args = syscall.args.as_slice();
    let mut follows = args.len() as u8;
    for (there, part) in [
        (syscall.stream != 0, parts::STREAM),
        (!syscall.writes.is_empty(), parts::WRITES),
        (!syscall.extra.is_empty(), parts::EXTRA),
        (!syscall.refs.is_empty(), parts::REFS),
    ] {
        if there {
            follows |= part;
        }
    }
    short.byte(follows);
    short.int(syscall.nr.into());
    for arg in args {
        short.int(*arg);
    }
    short.int(varint::zigzag(syscall.result));
    if let Some(order) = syscall.order {
        short.int(order);
    }
    if syscall.stream != 0 {
        short.byte(syscall.stream);
    }
    if !syscall.writes.is_empty() {
        short.int(writes_len(&syscall.writes));
    }
    out.extend_from_slice(short.as_slice());
    syscall.writes.put(out);
    if !syscall.refs.is_empty() {
        varint::put(out, refs_len(&syscall.refs));
        syscall.refs.put(out);
    }
    if !syscall.extra.is_empty() {
        varint::put(out, blob_len(syscall.extra));
        out.extend_from_slice(syscall.extra);
    }
}

/// The length is known only afterwards, and is then moved to the front.
fn put_readings(readings: &Readings<'_>, out: &mut Vec<u8>) {
    let start = out.len();
    readings.put(out);
    let length = out.len() - start;
    varint::put(out, length as u64);
    let front = out.len() - start - length;
    out[start..].rotate_right(front);
}

/// The length of a part of an event. It precedes the part, so that a reader that has only the
/// beginning need not walk the part again each time more bytes arrive.
fn checked_len(length: usize, too_long: &str) -> u64 {
    let length = length as u64;
    assert!(length <= BLOB_MAX, "{too_long}");
    length
}

fn writes_len(writes: &Writes<'_>) -> u64 {
    checked_len(
        writes.encoded_len(),
        "more memory writes than any event may carry",
    )
}

fn refs_len(refs: &Refs<'_>) -> u64 {
    checked_len(
        refs.encoded_len(),
        "more references than any event may carry",
    )
}

fn blob_len(bytes: &[u8]) -> u64 {
    checked_len(bytes.len(), "a byte string longer than any event may carry")
}
