//! Bytes to events. Must never panic, whatever the bytes.

use super::tags::{flag, order, parts, tag};
use crate::cursor::{Cursor, DecodeError, Step};
use crate::event::{Args, Ending, Event, Kind, Origin, Signal, Start, Syscall, TapeId};
use crate::readings::Readings;
use crate::refs::Refs;
use crate::writes::Writes;

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

    /// Behind an event at this tick.
    pub(crate) fn at(ticks: u64) -> Self {
        Self { last_ticks: ticks }
    }

    /// Ticks of the event before.
    pub(crate) fn ticks(&self) -> u64 {
        self.last_ticks
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
    // All that a full one had may stand before a switch.
    let section = match full {
        true => cursor.blob()?,
        false => filled(cursor, "an empty section of readings")?,
    };
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
        order::MARK => Kind::Mark {
            event: false,
            pc: cursor.varint()?,
        },
        order::MARK_OF_EVENT => Kind::Mark { event: true, pc: 0 },
        order::BEHIND | order::EVENT_BEHIND => Kind::Behind {
            event: sort == order::EVENT_BEHIND,
            thread: cursor.varint_u32()?,
            mark: cursor.varint()?,
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
