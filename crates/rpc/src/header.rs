//! A request's identity and content as one line of text, which crosses the wire as a header.
//!
//! `4FPPPPPPNNNNNN…`: version, a digit of flags (see [`flag`]), process and name of the task's
//! origin as 6 digits each, then numbers: the operation's, how far the sender's recording is ([`Mark`]),
//! the place if the origin is a gate; the steps behind their count, and the folded part as 11 digits; the
//! hash of the content as 11 digits; the sender's known mark as 4. Digits are of 6 bits, in the order of [`DIGITS`]; a number has 5 bits
//! in each digit, the last ones first, and all but the last digit have the sixth bit. **Every character
//! costs each side of HTTP/2 some 15 instructions, and nothing of the line is the same twice.**
//!
//! Anybody may have written the line: [`Header::parse`] accepts exactly the lines that
//! [`Header::to_text`] writes, looks at no more than [`HEADER_MAX`] bytes, and allocates nothing.

use std::fmt;

use crate::bytes::Malformed;
use crate::id::{Origin, Path, RequestId, STEPS_MAX, TaskId};
use crate::name::NameId;

/// The header's name where there are names.
pub const HEADER_NAME: &str = "relive";

/// Longest line: all of a name's digits, and all numbers at their longest.
pub const HEADER_MAX: usize = 2 + 2 * (NAME + HASH) + 3 * NUMBER + 1 + STEPS_MAX * STEP + KNOWN;

/// Digits of a name's number, of 64 bits, of a number of 64 bits, and of one of 32.
const NAME: usize = NameId::BITS as usize / 6;
const HASH: usize = 11;
const NUMBER: usize = 13;
const STEP: usize = 7;

/// Digits of a known mark.
const KNOWN: usize = 4;

/// Epochs that marks do not tell apart.
const TOGETHER: u64 = 2;

/// No clock goes as far; an epoch that a peer makes up is not followed.
const EPOCH_MAX: u64 = 1 << 62;

const VERSION: u8 = b'4';

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The value of a digit; [`NO_DIGIT`]: none.
const VALUES: [u8; 256] = {
    let mut values = [NO_DIGIT; 256];
    let mut at = 0;
    while at < DIGITS.len() {
        values[DIGITS[at] as usize] = at as u8;
        at += 1;
    }
    values
};
const NO_DIGIT: u8 = 0xff;

/// The bits of the second character.
mod flag {
    /// The origin is a gate; else a root.
    pub const GATE: u8 = 1;
    pub const PATH: u8 = 2;
    pub const FOLDED: u8 = 4;
    pub const CONTENT: u8 = 8;
    pub const KNOWN: u8 = 16;
}

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
    /// The mark that the sender got last ([`Mark::digest`]): its giver need not say it again.
    pub known: Option<u32>,
}

/// How far a process's recording was when it sent something: of processes that are killed, records that
/// depend on a lost epoch are left out of the replay. Requests carry it in their [`Header`]; it goes with answers
/// as a text of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The process.
    pub process: NameId,
    /// The epoch of its recording.
    pub epoch: u64,
}

impl Mark {
    /// The mark of all epochs that are not told from this one: of the last one.
    pub(crate) fn rounded(self) -> Self {
        let epoch = self.epoch | (TOGETHER - 1);
        Self { epoch, ..self }
    }

    /// The least epoch of a process that depends on this one, so that of processes that are killed all
    /// can be cut at the same epoch: Lamport's clock. `None`: nobody can be there.
    pub(crate) fn reaches(self) -> Option<u64> {
        (self.epoch < EPOCH_MAX).then_some(self.epoch & !(TOGETHER - 1))
    }

    /// 24 bits that stand for it where another one does no harm.
    pub fn digest(self) -> u32 {
        let all =
            (self.process.get() << 28) ^ self.rounded().epoch.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (all >> 40) as u32
    }

    /// As text: letters, digits, `-` and `_`.
    pub fn to_text(&self) -> HeaderText {
        let mut text = HeaderText::new();
        text.bits::<NAME>(self.process.get());
        text.number(self.epoch);
        text
    }

    /// Reads the text of [`Self::to_text`], and nothing else.
    pub fn parse(text: &[u8]) -> Result<Self, Malformed> {
        let mut line = Line(text);
        let mark = Self {
            process: line.name()?,
            epoch: line.number()?,
        };
        line.end().map(|()| mark)
    }
}

/// A line of a header, without an allocation.
#[derive(Clone, Copy)]
pub struct HeaderText {
    bytes: [u8; HEADER_MAX],
    len: u8,
}

impl HeaderText {
    fn new() -> Self {
        Self {
            bytes: [0; HEADER_MAX],
            len: 0,
        }
    }

    /// The line.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("digits are ASCII")
    }

    /// The same as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    fn put(&mut self, byte: u8) {
        self.bytes[usize::from(self.len)] = byte;
        self.len += 1;
    }

    fn digit(&mut self, value: u8) {
        self.put(DIGITS[usize::from(value & 63)]);
    }

    /// So many digits, the last ones first.
    fn bits<const LEN: usize>(&mut self, value: u64) {
        let at = usize::from(self.len);
        for (place, byte) in self.bytes[at..at + LEN].iter_mut().enumerate() {
            *byte = DIGITS[(value >> (6 * place)) as usize & 63];
        }
        self.len += LEN as u8;
    }

    fn number(&mut self, mut value: u64) {
        while value >= 32 {
            self.digit(value as u8 & 31 | 32);
            value >>= 5;
        }
        self.digit(value as u8);
    }
}

impl fmt::Display for HeaderText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for HeaderText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Header {
    /// As text: letters, digits, `-` and `_`.
    pub fn to_text(&self) -> HeaderText {
        let RequestId { task, number } = self.id;
        let (name, place) = match task.origin {
            Origin::Root(name) => (name, None),
            Origin::Gate(name, place) => (name, Some(place)),
            // A gate gives it by itself, and it is never sent.
            Origin::Outside(name) => (name, None),
        };
        let mut flags = 0;
        let mut with = |bit, is| flags |= if is { bit } else { 0 };
        with(flag::GATE, place.is_some());
        with(flag::PATH, !task.path.is_empty());
        with(flag::FOLDED, task.path.folded() != 0);
        with(flag::CONTENT, self.content.is_some());
        with(flag::KNOWN, self.known.is_some());
        let mut text = HeaderText::new();
        text.put(VERSION);
        text.digit(flags);
        text.bits::<NAME>(task.process.get());
        text.bits::<NAME>(name.get());
        text.number(number);
        text.number(self.epoch);
        if let Some(place) = place {
            text.number(place);
        }
        if !task.path.is_empty() {
            let steps = task.path.steps();
            text.digit(steps.len() as u8);
            steps.iter().for_each(|&step| text.number(step.into()));
            if task.path.folded() != 0 {
                text.bits::<HASH>(task.path.folded());
            }
        }
        if let Some(content) = self.content {
            text.bits::<HASH>(content.0);
        }
        if let Some(known) = self.known {
            text.bits::<KNOWN>(known.into());
        }
        text
    }

    /// Reads the text of [`Self::to_text`], and nothing else.
    pub fn parse(text: &[u8]) -> Result<Self, Malformed> {
        if text.len() > HEADER_MAX {
            return Err(Malformed("the header is too long"));
        }
        let mut line = Line(text);
        if line.take::<1>()? != [VERSION] {
            return Err(Malformed("the header's version is unknown"));
        }
        let flags = line.digit()?;
        if flags & !(flag::GATE | flag::PATH | flag::FOLDED | flag::CONTENT | flag::KNOWN) != 0 {
            return Err(Malformed("a flag of the header is unknown"));
        }
        let has = |bit| flags & bit != 0;
        let (process, name) = (line.name()?, line.name()?);
        let (number, epoch) = (line.number()?, line.number()?);
        let origin = match has(flag::GATE) {
            true => Origin::Gate(name, line.number()?),
            false => Origin::Root(name),
        };
        let path = match (has(flag::PATH), has(flag::FOLDED)) {
            (false, false) => Path::default(),
            (false, true) => return Err(Malformed("a folded path has no steps")),
            (true, folded) => line.path(folded)?,
        };
        let content = match has(flag::CONTENT) {
            true => Some(Content(line.hash()?)),
            false => None,
        };
        let known = match has(flag::KNOWN) {
            true => Some(line.bits::<KNOWN>()? as u32),
            false => None,
        };
        line.end()?;
        let task = TaskId {
            process,
            origin,
            path,
        };
        Ok(Self {
            id: RequestId { task, number },
            content,
            epoch,
            known,
        })
    }
}

/// The rest of a line.
struct Line<'a>(&'a [u8]);

impl Line<'_> {
    fn take<const LEN: usize>(&mut self) -> Result<[u8; LEN], Malformed> {
        let (taken, rest) = self
            .0
            .split_first_chunk()
            .ok_or(Malformed("the header ends too early"))?;
        self.0 = rest;
        Ok(*taken)
    }

    fn digit(&mut self) -> Result<u8, Malformed> {
        let [byte] = self.take()?;
        match VALUES[usize::from(byte)] {
            NO_DIGIT => Err(Malformed("a character is no digit")),
            value => Ok(value),
        }
    }

    fn bits<const LEN: usize>(&mut self) -> Result<u64, Malformed> {
        let digits: [u8; LEN] = self.take()?;
        let (mut value, mut all, mut last) = (0, 0, 0);
        for (place, byte) in digits.into_iter().enumerate() {
            last = VALUES[usize::from(byte)];
            all |= last;
            value |= u64::from(last & 63) << (6 * place);
        }
        // Of 11 digits the last one has 4 bits.
        match all == NO_DIGIT || (LEN == HASH && last > 15) {
            true => Err(Malformed("digits of a hash were expected")),
            false => Ok(value),
        }
    }

    fn name(&mut self) -> Result<NameId, Malformed> {
        self.bits::<NAME>().map(NameId::from_hash)
    }

    fn hash(&mut self) -> Result<u64, Malformed> {
        self.bits::<HASH>()
    }

    fn number(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(5) {
            let digit = self.digit()?;
            let bits = u64::from(digit & 31);
            if (bits << shift) >> shift != bits {
                return Err(Malformed("a number is too large"));
            }
            value |= bits << shift;
            if digit & 32 == 0 {
                return match bits == 0 && shift > 0 {
                    true => Err(Malformed("a number is not in its shortest form")),
                    false => Ok(value),
                };
            }
        }
        Err(Malformed("a number is too long"))
    }

    fn end(&self) -> Result<(), Malformed> {
        match self.0.is_empty() {
            true => Ok(()),
            false => Err(Malformed("there is something behind the line")),
        }
    }

    fn path(&mut self, folded: bool) -> Result<Path, Malformed> {
        let mut kept = [0; STEPS_MAX];
        let steps = kept.get_mut(..usize::from(self.digit()?));
        let steps = steps.ok_or(Malformed("a path is too long"))?;
        for step in &mut *steps {
            let wrong = |_| Malformed("a step is too large");
            *step = u32::try_from(self.number()?).map_err(wrong)?;
        }
        let folded = match folded {
            true => Some(self.hash()?),
            false => None,
        };
        match (&*steps, folded) {
            ([], _) | (_, Some(0)) => Err(Malformed("a path is not one")),
            (steps, folded) => {
                Path::from_parts(folded.unwrap_or(0), steps).ok_or(Malformed("a path is not one"))
            }
        }
    }
}
