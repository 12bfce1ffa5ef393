//! Records as bytes: the stream of one lane.
//!
//! A *lane* is the history that one entry point, group, lock, channel or root task writes. Its stream
//! begins with a definition; receipts, primitives and cancellations follow, in order. Senders and
//! names are written once and then referred to, places by their distance from the one before, so that
//! a receipt takes a few bytes. The decoder trusts no byte and keeps the encoder's state beside it.

use std::collections::HashMap;

use crate::bytes::{Cursor, Malformed, at_distance, distance, put, put_bytes};
use crate::header::Content;
use crate::id::{Origin, Path, RequestId, STEPS_MAX, TaskId};
use crate::name::{NAME_MAX, Name, NameId};

/// Longest value of a primitive.
pub const VALUE_MAX: usize = 1 << 20;

/// Senders that a lane remembers.
const SENDERS: usize = 32;

/// Whose history a lane is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LaneKind {
    /// A task that the program named itself.
    Root,
    /// An entry point whose handlers run side by side.
    Entry,
    /// An exclusive entry point, or a group of them: one handler at a time.
    Exclusive,
    /// A lock.
    Lock,
    /// The sending side of a channel.
    Channel,
}

impl LaneKind {
    const ALL: [Self; 5] = [
        Self::Root,
        Self::Entry,
        Self::Exclusive,
        Self::Lock,
        Self::Channel,
    ];

    /// Whether one receipt's work ends before the next receipt.
    pub fn is_exclusive(self) -> bool {
        matches!(self, Self::Exclusive | Self::Lock | Self::Channel)
    }

    /// As it is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Entry => "entry",
            Self::Exclusive => "exclusive",
            Self::Lock => "lock",
            Self::Channel => "channel",
        }
    }
}

/// A request was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Which request.
    pub id: RequestId,
    /// At which entry point of the lane.
    pub entry: NameId,
    /// The hash of its content, where it has one.
    pub content: Option<Content>,
}

/// One task of a lane: the receipt that it handles (0 for a root), and its way from there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// Place of the receipt in the lane.
    pub place: u64,
    /// Way from the lane's first task of that place.
    pub path: Path,
}

/// A record of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// The first one: whose lane it is.
    Define(LaneKind, Name),
    /// What follows belongs to this epoch of the recording.
    Epoch(u64),
    /// A request was received.
    Receipt(Receipt),
    /// An operation had a result that is not a function of the program's state.
    Primitive {
        /// Whose operation.
        task: Member,
        /// Its number.
        number: u64,
        /// Which primitive.
        name: Name,
        /// Its result.
        value: Vec<u8>,
    },
    /// A task was given up before its end.
    Cancelled {
        /// Which one.
        task: Member,
        /// So many operations it had begun.
        operations: u64,
    },
}

mod tag {
    pub const KIND: u8 = 3;
    pub const DEFINE: u8 = 0;
    pub const RECEIPT: u8 = 1;
    pub const PRIMITIVE: u8 = 2;
    pub const CANCELLED: u8 = 3;
    pub const PATH: u8 = 1 << 2;
    /// Another epoch; the kind is [`DEFINE`].
    pub const EPOCH: u8 = 1 << 7;
    /// A sender or name that was not referred to before.
    pub const NEW: u8 = 1 << 3;
    /// Another place than the last one.
    pub const PLACE: u8 = 1 << 4;
    pub const CONTENT: u8 = 1 << 5;
    /// Another entry point than the one with the lane's name.
    pub const ENTRY: u8 = 1 << 6;
}

/// A family of tasks that sends requests, and the place that it last sent one from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sender {
    process: NameId,
    origin: u8,
    name: NameId,
    place: u64,
}

impl Sender {
    fn of(task: &TaskId) -> Self {
        let (origin, name, place) = match task.origin {
            Origin::Root(name) => (0, name, 0),
            Origin::Gate(name, place) => (1, name, place),
            Origin::Outside(name) => (2, name, 0),
        };
        Self {
            process: task.process,
            origin,
            name,
            place,
        }
    }

    fn same(&self, other: &Self) -> bool {
        (self.process, self.origin, self.name) == (other.process, other.origin, other.name)
    }

    fn task(&self, path: Path) -> Result<TaskId, Malformed> {
        let origin = match self.origin {
            0 if self.place == 0 => Origin::Root(self.name),
            1 => Origin::Gate(self.name, self.place),
            2 if self.place == 0 => Origin::Outside(self.name),
            _ => return Err(Malformed("a sender's origin is unknown")),
        };
        Ok(TaskId {
            process: self.process,
            origin,
            path,
        })
    }
}

/// The last senders of a lane; a new one takes the oldest one's slot.
#[derive(Debug, Default)]
struct Senders {
    slots: Vec<Sender>,
    next: usize,
    last: usize,
}

impl Senders {
    fn find(&mut self, sender: &Sender) -> Option<usize> {
        if self
            .slots
            .get(self.last)
            .is_none_or(|slot| !slot.same(sender))
        {
            self.last = self.slots.iter().position(|slot| slot.same(sender))?;
        }
        Some(self.last)
    }

    fn add(&mut self, sender: Sender) {
        match self.slots.len() < SENDERS {
            true => self.slots.push(sender),
            false => self.slots[self.next] = sender,
        }
        self.last = self.next;
        self.next = (self.next + 1) % SENDERS;
    }
}

/// Writes a lane's records.
#[derive(Debug)]
pub struct Encoder {
    own: NameId,
    senders: Senders,
    names: HashMap<NameId, u64>,
    place: u64,
    epoch: u64,
}

impl Encoder {
    /// Begins a lane with its definition.
    pub fn new(out: &mut Vec<u8>, kind: LaneKind, name: &Name) -> Self {
        out.push(tag::DEFINE);
        out.push(kind as u8);
        put_bytes(out, name.as_str().as_bytes());
        Self {
            own: name.id(),
            senders: Senders::default(),
            names: HashMap::new(),
            place: 0,
            epoch: 0,
        }
    }

    /// What follows belongs to this epoch; they only grow.
    #[inline]
    pub fn epoch(&mut self, out: &mut Vec<u8>, epoch: u64) {
        if epoch != self.epoch {
            out.push(tag::DEFINE | tag::EPOCH);
            put(out, epoch.wrapping_sub(self.epoch));
            self.epoch = epoch;
        }
    }

    /// A request was received. `name`: of its entry point, whose number is in the receipt.
    #[inline]
    pub fn receipt(&mut self, out: &mut Vec<u8>, receipt: &Receipt, name: &Name) {
        let at = out.len();
        let mut bits = tag::RECEIPT;
        out.push(0);
        let sender = Sender::of(&receipt.id.task);
        let before = match self.senders.find(&sender) {
            Some(slot) => {
                out.push(slot as u8);
                std::mem::replace(&mut self.senders.slots[slot].place, sender.place)
            }
            None => {
                bits |= tag::NEW;
                self.senders.add(sender);
                out.extend_from_slice(&sender.process.0.to_le_bytes());
                out.push(sender.origin);
                out.extend_from_slice(&sender.name.0.to_le_bytes());
                0
            }
        };
        if before != sender.place {
            bits |= tag::PLACE;
            put(out, distance(before, sender.place));
        }
        bits |= put_path(out, &receipt.id.task.path);
        put(out, receipt.id.number);
        if receipt.entry != self.own {
            bits |= tag::ENTRY;
            self.name(out, name);
        }
        if let Some(content) = receipt.content {
            bits |= tag::CONTENT;
            out.extend_from_slice(&content.0.to_le_bytes());
        }
        out[at] = bits;
    }

    /// An operation had this result.
    pub fn primitive(
        &mut self,
        out: &mut Vec<u8>,
        task: Member,
        number: u64,
        name: &Name,
        value: &[u8],
    ) {
        self.member(out, tag::PRIMITIVE, task);
        put(out, number);
        self.name(out, name);
        put_bytes(out, value);
    }

    /// A task was given up after so many operations.
    pub fn cancelled(&mut self, out: &mut Vec<u8>, task: Member, operations: u64) {
        self.member(out, tag::CANCELLED, task);
        put(out, operations);
    }

    fn member(&mut self, out: &mut Vec<u8>, mut bits: u8, task: Member) {
        let at = out.len();
        out.push(0);
        if task.place != self.place {
            bits |= tag::PLACE;
            put(out, distance(self.place, task.place));
            self.place = task.place;
        }
        bits |= put_path(out, &task.path);
        out[at] = bits;
    }

    /// A number for a name that was written before; the next number and the name else.
    fn name(&mut self, out: &mut Vec<u8>, name: &Name) {
        let next = self.names.len() as u64;
        let number = *self.names.entry(name.id()).or_insert(next);
        put(out, number);
        if number == next {
            put_bytes(out, name.as_str().as_bytes());
        }
    }
}

fn put_path(out: &mut Vec<u8>, path: &Path) -> u8 {
    if path.is_empty() {
        return 0;
    }
    out.push(path.steps().len() as u8 | if path.folded() == 0 { 0 } else { 0x80 });
    if path.folded() != 0 {
        out.extend_from_slice(&path.folded().to_le_bytes());
    }
    path.steps().iter().for_each(|&step| put(out, step.into()));
    tag::PATH
}

/// Reads a lane's records, from the first one on.
#[derive(Debug, Default)]
pub struct Decoder {
    own: Option<NameId>,
    senders: Senders,
    names: Vec<Name>,
    place: u64,
    epoch: u64,
}

impl Decoder {
    /// All records of bytes that hold whole ones.
    pub fn read(&mut self, bytes: &[u8]) -> Result<Vec<Record>, Malformed> {
        let mut cursor = Cursor::new(bytes);
        let mut records = Vec::new();
        while !cursor.is_empty() {
            records.push(self.record(&mut cursor)?);
        }
        Ok(records)
    }

    /// The names that the lane's records brought so far, without its own.
    pub fn names(&self) -> &[Name] {
        &self.names
    }

    fn record(&mut self, cursor: &mut Cursor) -> Result<Record, Malformed> {
        let bits = cursor.byte()?;
        let allowed = match bits & tag::KIND {
            tag::DEFINE => tag::EPOCH,
            tag::RECEIPT => tag::PATH | tag::NEW | tag::PLACE | tag::CONTENT | tag::ENTRY,
            _ => tag::PATH | tag::PLACE,
        };
        if bits & !tag::KIND & !allowed != 0 {
            return Err(Malformed("a record's kind is unknown"));
        }
        match (bits & tag::KIND, self.own) {
            (tag::DEFINE, Some(_)) if bits & tag::EPOCH != 0 => {
                let later = self.epoch.checked_add(cursor.varint()?);
                let later = later.filter(|later| *later > self.epoch);
                self.epoch = later.ok_or(Malformed("epochs are not in order"))?;
                Ok(Record::Epoch(self.epoch))
            }
            (tag::DEFINE, _) if bits & tag::EPOCH != 0 => Err(Malformed(
                "a lane begins with its definition, and has no other",
            )),
            (tag::DEFINE, None) => self.define(cursor),
            (tag::DEFINE, Some(_)) | (_, None) => Err(Malformed(
                "a lane begins with its definition, and has no other",
            )),
            (tag::RECEIPT, Some(own)) => self.receipt(cursor, bits, own).map(Record::Receipt),
            (tag::PRIMITIVE, _) => {
                let task = self.member(cursor, bits)?;
                Ok(Record::Primitive {
                    task,
                    number: cursor.varint()?,
                    name: self.name(cursor)?,
                    value: cursor.bytes(VALUE_MAX)?.to_vec(),
                })
            }
            _ => {
                let task = self.member(cursor, bits)?;
                let operations = cursor.varint()?;
                Ok(Record::Cancelled { task, operations })
            }
        }
    }

    fn define(&mut self, cursor: &mut Cursor) -> Result<Record, Malformed> {
        let kind = LaneKind::ALL
            .get(usize::from(cursor.byte()?))
            .ok_or(Malformed("a lane's kind is unknown"))?;
        let name = name(cursor)?;
        self.own = Some(name.id());
        Ok(Record::Define(*kind, name))
    }

    fn receipt(
        &mut self,
        cursor: &mut Cursor,
        bits: u8,
        own: NameId,
    ) -> Result<Receipt, Malformed> {
        let slot = if bits & tag::NEW != 0 {
            self.senders.add(Sender {
                process: NameId(cursor.u64()?),
                origin: cursor.byte()?,
                name: NameId(cursor.u64()?),
                place: 0,
            });
            self.senders.last
        } else {
            usize::from(cursor.byte()?)
        };
        let sender = self
            .senders
            .slots
            .get_mut(slot)
            .ok_or(Malformed("a sender is unknown"))?;
        if bits & tag::PLACE != 0 {
            sender.place = at_distance(sender.place, cursor.varint()?);
        }
        let sender = *sender;
        let task = sender.task(path(cursor, bits)?)?;
        let number = cursor.varint()?;
        let entry = match bits & tag::ENTRY {
            0 => own,
            _ => self.name(cursor)?.id(),
        };
        let content = match bits & tag::CONTENT {
            0 => None,
            _ => Some(Content(cursor.u64()?)),
        };
        Ok(Receipt {
            id: RequestId { task, number },
            entry,
            content,
        })
    }

    fn member(&mut self, cursor: &mut Cursor, bits: u8) -> Result<Member, Malformed> {
        if bits & tag::PLACE != 0 {
            self.place = at_distance(self.place, cursor.varint()?);
        }
        Ok(Member {
            place: self.place,
            path: path(cursor, bits)?,
        })
    }

    fn name(&mut self, cursor: &mut Cursor) -> Result<Name, Malformed> {
        let number = usize::try_from(cursor.varint()?).unwrap_or(usize::MAX);
        if number == self.names.len() {
            self.names.push(name(cursor)?);
        }
        let name = self.names.get(number);
        Ok(name.ok_or(Malformed("a name is unknown"))?.clone())
    }
}

fn name(cursor: &mut Cursor) -> Result<Name, Malformed> {
    let text = str::from_utf8(cursor.bytes(NAME_MAX)?);
    Name::new(text.map_err(|_| Malformed("a name is no text"))?)
}

fn path(cursor: &mut Cursor, bits: u8) -> Result<Path, Malformed> {
    if bits & tag::PATH == 0 {
        return Ok(Path::default());
    }
    const WRONG: Malformed = Malformed("a path is not one");
    let head = cursor.byte()?;
    let len = usize::from(head & 0x7f);
    let folded = match head & 0x80 {
        0 => 0,
        _ => cursor.u64()?,
    };
    if len == 0 || len > STEPS_MAX || (head & 0x80 != 0) != (folded != 0) {
        return Err(WRONG);
    }
    let mut steps = [0; STEPS_MAX];
    for step in &mut steps[..len] {
        *step = u32::try_from(cursor.varint()?).map_err(|_| WRONG)?;
    }
    Path::from_parts(folded, &steps[..len]).ok_or(WRONG)
}
