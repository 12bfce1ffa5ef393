//! A request's identity and content as one line of text, which crosses the wire as a header.
//!
//! `2;PROCESS;ORIGIN;PATH;NUMBER;CONTENT;EPOCH`: version, process, where the task's family comes from
//! (`r` and a name, or `g`, a name, `.` and a place), steps with dots between them and a folded part
//! before `~`, the operation's number, the hash of the content, which may be empty, and how far the
//! sender's recording is ([`Mark`]). Names and hashes are 16 hexadecimal digits, other numbers are decimal.
//!
//! Anybody may have written the line: what [`Header::parse`] accepts is exactly what
//! [`Header::to_text`] writes, it looks at no more than [`HEADER_MAX`] bytes, and allocates nothing.

use std::fmt::Write;

use crate::bytes::Malformed;
use crate::id::{Origin, Path, RequestId, STEPS_MAX, TaskId};
use crate::name::NameId;

/// The header's name where there are names.
pub const HEADER_NAME: &str = "relive-rpc";

/// Longest line.
pub const HEADER_MAX: usize = 256;

/// A hash of a request's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Content(pub u64);

impl Content {
    /// The hash of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(xxhash_rust::xxh3::xxh3_64(bytes))
    }

    /// As messages name it.
    pub(crate) fn show(content: Option<Self>) -> String {
        match content {
            Some(content) => format!("content {:016x}", content.0),
            None => "content without a hash".to_owned(),
        }
    }
}

/// Goes with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Which request it is.
    pub id: RequestId,
    /// The hash of its content, where its sender gives one.
    pub content: Option<Content>,
    /// The epoch of the sender's recording; 0 in a replay.
    pub epoch: u64,
}

/// How far a process's recording was when it sent something: of processes that are killed, what depends
/// on a lost epoch is left out of the replay. Requests carry it in their [`Header`]; it goes with answers
/// as a text of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The process.
    pub process: NameId,
    /// The epoch of its recording.
    pub epoch: u64,
}

impl Mark {
    /// As text: printable ASCII without spaces.
    pub fn to_text(&self) -> String {
        format!("{};{}", self.process, self.epoch)
    }

    /// Reads what [`Self::to_text`] writes, and nothing else.
    pub fn parse(text: &[u8]) -> Result<Self, Malformed> {
        let at = text.iter().position(|&byte| byte == b';');
        let (process, epoch) = text.split_at(at.ok_or(Malformed("a mark has no epoch"))?);
        Ok(Self {
            process: NameId(hex(process)?),
            epoch: decimal(&epoch[1..])?,
        })
    }
}

impl Header {
    /// As text: printable ASCII without spaces.
    pub fn to_text(&self) -> String {
        let RequestId { task, number } = self.id;
        let mut text = String::with_capacity(96);
        let mut line = || -> std::fmt::Result {
            write!(text, "2;{};", task.process)?;
            match task.origin {
                Origin::Root(name) => write!(text, "r{name};")?,
                Origin::Gate(name, place) => write!(text, "g{name}.{place};")?,
                Origin::Outside(name) => write!(text, "o{name};")?,
            }
            if task.path.folded() != 0 {
                write!(text, "{:016x}~", task.path.folded())?;
            }
            for (at, step) in task.path.steps().iter().enumerate() {
                write!(text, "{}{step}", if at == 0 { "" } else { "." })?;
            }
            write!(text, ";{number};")?;
            if let Some(content) = self.content {
                write!(text, "{:016x}", content.0)?;
            }
            write!(text, ";{}", self.epoch)
        };
        line().expect("a string takes all text");
        text
    }

    /// Reads what [`Self::to_text`] writes, and nothing else.
    pub fn parse(text: &[u8]) -> Result<Self, Malformed> {
        if text.len() > HEADER_MAX {
            return Err(Malformed("the header is too long"));
        }
        let mut fields = text.split(|&byte| byte == b';');
        let mut field = || fields.next().ok_or(Malformed("a field lacks"));
        if field()? != b"2" {
            return Err(Malformed("the header's version is unknown"));
        }
        let process = NameId(hex(field()?)?);
        let origin = origin(field()?)?;
        let path = path(field()?)?;
        let number = decimal(field()?)?;
        let content = match field()? {
            [] => None,
            digits => Some(Content(hex(digits)?)),
        };
        let epoch = decimal(field()?)?;
        if fields.next().is_some() {
            return Err(Malformed("there is a field too many"));
        }
        let task = TaskId {
            process,
            origin,
            path,
        };
        Ok(Self {
            id: RequestId { task, number },
            content,
            epoch,
        })
    }
}

fn origin(field: &[u8]) -> Result<Origin, Malformed> {
    match field.split_first() {
        Some((b'r', name)) => Ok(Origin::Root(NameId(hex(name)?))),
        Some((b'g', rest)) => {
            let dot = rest.iter().position(|&byte| byte == b'.');
            let (name, place) = rest.split_at(dot.ok_or(Malformed("a gate has no place"))?);
            Ok(Origin::Gate(NameId(hex(name)?), decimal(&place[1..])?))
        }
        // A gate gives such identities by itself; nobody sends one.
        _ => Err(Malformed("the task's origin is unknown")),
    }
}

fn path(field: &[u8]) -> Result<Path, Malformed> {
    let (folded, steps) = match field.iter().position(|&byte| byte == b'~') {
        Some(at) => match hex(&field[..at])? {
            0 => return Err(Malformed("a path's folded part is 0")),
            folded => (folded, &field[at + 1..]),
        },
        None => (0, field),
    };
    let mut kept = [0; STEPS_MAX];
    let mut len = 0;
    if !steps.is_empty() {
        for step in steps.split(|&byte| byte == b'.') {
            let step =
                u32::try_from(decimal(step)?).map_err(|_| Malformed("a step is too large"))?;
            *kept.get_mut(len).ok_or(Malformed("a path is too long"))? = step;
            len += 1;
        }
    }
    Path::from_parts(folded, &kept[..len]).ok_or(Malformed("a path is not one"))
}

fn hex(digits: &[u8]) -> Result<u64, Malformed> {
    const WRONG: Malformed = Malformed("16 hexadecimal digits were expected");
    if digits.len() != 16 {
        return Err(WRONG);
    }
    digits.iter().try_fold(0, |value, byte| match byte {
        b'0'..=b'9' => Ok(value << 4 | u64::from(byte - b'0')),
        b'a'..=b'f' => Ok(value << 4 | u64::from(byte - b'a' + 10)),
        _ => Err(WRONG),
    })
}

fn decimal(digits: &[u8]) -> Result<u64, Malformed> {
    const WRONG: Malformed = Malformed("a number is not one");
    if digits.is_empty() || (digits.len() > 1 && digits[0] == b'0') {
        return Err(WRONG);
    }
    digits.iter().try_fold(0u64, |value, byte| match byte {
        b'0'..=b'9' => value
            .checked_mul(10)
            .and_then(|value| value.checked_add(u64::from(byte - b'0')))
            .ok_or(WRONG),
        _ => Err(WRONG),
    })
}
