//! Events to bytes and back.
//!
//! Every event has exactly one encoding and says itself where it ends. The encoder appends
//! to the caller's buffer and allocates nothing else: it runs while a guest thread waits.
//! The decoder borrows from the bytes, never panics, and reports a beginning of an event as
//! [`DecodeError::Incomplete`]. `docs/trace-format.md` has the layout.

use crate::cursor::{BLOB_MAX, Cursor, DecodeError, Step};
use crate::event::{Args, Ending, Event, Kind, Origin, Signal, Start, Syscall, TapeId};
use crate::readings::Readings;
use crate::refs::Refs;
use crate::short::Short;
use crate::varint;
use crate::writes::Writes;

/// Low half of an event's first byte.
pub(crate) mod tag {
    pub const START: u8 = 1;
    pub const SYSCALL: u8 = 2;
    pub const SIGNAL: u8 = 3;
    pub const SWITCH: u8 = 4;
    pub const INSTR: u8 = 5;
    pub const EXEC: u8 = 6;
    pub const TURN: u8 = 7;
    pub const CHECKSUM: u8 = 8;
    pub const END: u8 = 9;
    pub const HANDOVER: u8 = 10;
    pub const MEMORY: u8 = 11;
    pub const AFTER: u8 = 12;
    pub const READINGS: u8 = 13;
    pub const ORDER: u8 = 14;
    pub const MASK: u8 = 0x0f;
}

/// The second field of an event of order: its sort.
pub(crate) mod order {
    pub const MOMENT: u8 = 0;
    pub const MOMENT_OF_EVENT: u8 = 1;
    pub const EDGE: u8 = 2;
    pub const EDGE_OF_EVENT: u8 = 3;
}

/// High half of an event's first byte.
pub(crate) mod flag {
    pub const DIGEST: u8 = 0x10;
    /// Syscalls only.
    pub const SWITCHED: u8 = 0x20;
    /// Syscalls only.
    pub const ORDER: u8 = 0x40;
    pub const MASK: u8 = 0xf0;
}

/// A syscall's second byte: the number of arguments and which parts follow.
pub(crate) mod parts {
    pub const ARGS: u8 = 0x07;
    pub const STREAM: u8 = 0x08;
    pub const WRITES: u8 = 0x10;
    pub const EXTRA: u8 = 0x20;
    pub const REFS: u8 = 0x40;
    pub const ALL: u8 = ARGS | STREAM | WRITES | EXTRA | REFS;
}

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

/// Decodes one tape's events in order.
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    pub(crate) last_ticks: u64,
}

impl Decoder {
    /// At the beginning of a tape.
    pub fn new() -> Self {
        Self::default()
    }

    /// Decodes the event at the beginning of `bytes` and says how many bytes it took.
    ///
    /// # Errors
    /// [`DecodeError::Incomplete`] when `bytes` ends inside the event, `Corrupt` when they are not
    /// an event. After an error the decoder stays unchanged.
    #[inline]
    pub fn decode<'a>(&mut self, bytes: &'a [u8]) -> Result<(Event<'a>, usize), DecodeError> {
        self.step(bytes, Readings::decode)
    }

    /// As [`Decoder::decode`], for bytes that it has decoded before: long parts are not checked
    /// again.
    pub(crate) fn decode_again<'a>(&mut self, bytes: &'a [u8]) -> Option<Event<'a>> {
        let again = self.step(bytes, |readings| Some(Readings::decoded(readings)));
        again.ok().map(|(event, _)| event)
    }

    #[inline]
    fn step<'a>(
        &mut self,
        bytes: &'a [u8],
        check: impl FnOnce(&'a [u8]) -> Option<Readings<'a>>,
    ) -> Result<(Event<'a>, usize), DecodeError> {
        let mut cursor = Cursor::new(bytes);
        let first = cursor.clone();
        let head = cursor.byte()?;
        let flags = head & flag::MASK;
        let tag = head & tag::MASK;
        let allowed = match tag {
            tag::SYSCALL => flag::DIGEST | flag::SWITCHED | flag::ORDER,
            tag::START..=tag::ORDER => flag::DIGEST,
            _ => return first.corrupt("an unknown kind of event"),
        };
        if flags & !allowed != 0 {
            return first.corrupt("an unknown event flag");
        }
        let delta = cursor.varint()?;
        let digest = match flags & flag::DIGEST {
            0 => 0,
            _ => nonzero(&mut cursor, "an empty digest", |cursor| {
                Ok(u32::from_le_bytes(cursor.fixed()?))
            })?,
        };
        let kind = match tag {
            tag::START => Kind::Start(start(&mut cursor)?),
            tag::SYSCALL => Kind::Syscall(syscall(&mut cursor, flags)?),
            tag::SIGNAL => Kind::Signal(Signal {
                steps: cursor.varint_u32()?,
                signo: cursor.byte()?,
                siginfo: cursor.blob()?,
            }),
            tag::SWITCH => Kind::Switch {
                steps: cursor.varint_u32()?,
            },
            tag::INSTR => instr(&mut cursor)?,
            tag::EXEC => Kind::Exec(cursor.blob()?),
            tag::TURN => Kind::Turn {
                thread: cursor.varint_u32()?,
            },
            tag::CHECKSUM => Kind::Checksum {
                at: cursor.varint()?,
                value: u64::from_le_bytes(cursor.fixed()?),
            },
            tag::HANDOVER => handover(&mut cursor)?,
            tag::AFTER => Kind::After {
                process: cursor.varint_u32()?,
                turn: turn(&mut cursor)?,
            },
            tag::MEMORY => Kind::Memory(writes(&mut cursor)?),
            tag::READINGS => readings(&mut cursor, check)?,
            tag::ORDER => ordered(&mut cursor)?,
            _ => end(&mut cursor)?,
        };
        let ticks = self.last_ticks.wrapping_add(delta);
        self.last_ticks = ticks;
        let event = Event {
            ticks,
            digest,
            kind,
        };
        Ok((event, cursor.position()))
    }
}

fn start(cursor: &mut Cursor<'_>) -> Step<Start> {
    Ok(Start {
        origin: choice(cursor, &Origin::ALL, "an unknown origin of a thread")?,
        parent: TapeId {
            process: cursor.varint_u32()?,
            thread: cursor.varint_u32()?,
        },
        tid: cursor.varint_u32()?,
        pid: cursor.varint_u32()?,
    })
}

#[inline]
fn syscall<'a>(cursor: &mut Cursor<'a>, flags: u8) -> Step<Syscall<'a>> {
    let before = cursor.clone();
    let follows = cursor.byte()?;
    let n = usize::from(follows & parts::ARGS);
    if n > 6 || follows & !parts::ALL != 0 {
        return before.corrupt("an unknown part of a system call");
    }
    let nr = cursor.varint_u32()?;
    let mut args = [0; 6];
    for arg in &mut args[..n] {
        *arg = cursor.varint()?;
    }
    let result = cursor.signed()?;
    let order = match flags & flag::ORDER {
        0 => None,
        _ => Some(cursor.varint()?),
    };
    let stream = match follows & parts::STREAM {
        0 => 0,
        _ => nonzero(cursor, "an empty stream", Cursor::byte)?,
    };
    let writes = match follows & parts::WRITES {
        0 => Writes::NONE,
        _ => writes(cursor)?,
    };
    let refs = match follows & parts::REFS {
        0 => Refs::NONE,
        _ => refs(cursor)?,
    };
    let extra = match follows & parts::EXTRA {
        0 => &[],
        _ => filled(cursor, "an empty section of hook data")?,
    };
    Ok(Syscall {
        nr,
        args: Args::new(&args[..n]),
        result,
        switched: flags & flag::SWITCHED != 0,
        order,
        stream,
        writes,
        refs,
        extra,
    })
}

fn writes<'a>(cursor: &mut Cursor<'a>) -> Step<Writes<'a>> {
    let before = cursor.clone();
    let section = filled(cursor, "an empty section of memory writes")?;
    match Writes::decode(section) {
        Some(writes) => Ok(writes),
        None => before.corrupt("a memory write that does not fit its section"),
    }
}

fn refs<'a>(cursor: &mut Cursor<'a>) -> Step<Refs<'a>> {
    let before = cursor.clone();
    let section = filled(cursor, "an empty section of references")?;
    match Refs::decode(section) {
        Some(refs) => Ok(refs),
        None => before.corrupt("a reference that does not fit its section"),
    }
}

fn readings<'a>(
    cursor: &mut Cursor<'a>,
    check: impl FnOnce(&'a [u8]) -> Option<Readings<'a>>,
) -> Step<Kind<'a>> {
    let full = choice(cursor, &[false, true], "an unknown sort of readings")?;
    let since = cursor.varint()?;
    let before = cursor.clone();
    let section = filled(cursor, "an empty section of readings")?;
    match check(section) {
        Some(readings) => Ok(Kind::Readings {
            full,
            since,
            readings,
        }),
        None => before.corrupt("a reading that does not fit its section"),
    }
}

fn handover<'a>(cursor: &mut Cursor<'_>) -> Step<Kind<'a>> {
    Ok(Kind::Handover {
        thread: cursor.varint_u32()?,
        process: cursor.varint_u32()?,
        turn: turn(cursor)?,
    })
}

fn ordered<'a>(cursor: &mut Cursor<'_>) -> Step<Kind<'a>> {
    let before = cursor.clone();
    let sort = cursor.byte()?;
    Ok(match sort {
        order::MOMENT | order::MOMENT_OF_EVENT => Kind::Moment {
            event: sort == order::MOMENT_OF_EVENT,
            since: cursor.varint()?,
            took: cursor.varint()?,
        },
        order::EDGE | order::EDGE_OF_EVENT => Kind::Edge {
            at: cursor.varint()?,
            event: sort == order::EDGE_OF_EVENT,
            thread: cursor.varint_u32()?,
            op: cursor.varint()?,
        },
        _ => return before.corrupt("an unknown sort of order"),
    })
}

/// A number plus one, or 0 for none.
fn turn(cursor: &mut Cursor<'_>) -> Step<Option<u32>> {
    let before = cursor.clone();
    match cursor.varint()?.checked_sub(1).map(u32::try_from) {
        None => Ok(None),
        Some(Ok(turn)) => Ok(Some(turn)),
        Some(Err(_)) => before.corrupt("a turn of more than 32 bits"),
    }
}

fn instr<'a>(cursor: &mut Cursor<'_>) -> Step<Kind<'a>> {
    let op = cursor.byte()?;
    let before = cursor.clone();
    let n = cursor.byte()?;
    let mut values = [0; 4];
    let Some(used) = values.get_mut(..usize::from(n)) else {
        return before.corrupt("an instruction with more than four values");
    };
    for value in used {
        *value = cursor.varint()?;
    }
    Ok(Kind::Instr { op, values, n })
}

fn end<'a>(cursor: &mut Cursor<'_>) -> Step<Kind<'a>> {
    let how = choice(cursor, &Ending::ALL, "an unknown ending")?;
    let before = cursor.clone();
    let code = i32::try_from(cursor.signed()?)
        .or_else(|_| before.corrupt("an exit code of more than 32 bits"))?;
    let steps = cursor.varint_u32()?;
    Ok(Kind::End { how, code, steps })
}

/// One byte that is an index into `all`.
fn choice<T: Copy>(cursor: &mut Cursor<'_>, all: &[T], what: &'static str) -> Step<T> {
    let before = cursor.clone();
    let index = cursor.byte()?;
    match all.get(usize::from(index)) {
        Some(value) => Ok(*value),
        None => before.corrupt(what),
    }
}

/// A value whose presence a flag announced: the default would be a second encoding.
fn nonzero<'a, T: Default + PartialEq>(
    cursor: &mut Cursor<'a>,
    what: &'static str,
    read: impl FnOnce(&mut Cursor<'a>) -> Step<T>,
) -> Step<T> {
    let before = cursor.clone();
    let value = read(cursor)?;
    if value == T::default() {
        return before.corrupt(what);
    }
    Ok(value)
}

fn filled<'a>(cursor: &mut Cursor<'a>, what: &'static str) -> Step<&'a [u8]> {
    nonzero(cursor, what, Cursor::blob)
}
