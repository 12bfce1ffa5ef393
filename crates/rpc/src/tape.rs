//! The tape of one process: a header, and checksummed frames, each with whole records of one lane.
//!
//! | bytes | content |
//! | --- | --- |
//! | 8 | `RELIVRPC` |
//! | 2, 2 | major and minor version, little-endian as all numbers |
//! | 1, n | the process's name |
//! | 8 | checksum of the above |
//! | 4, 4, 8, n | a frame: lane, length, checksum, records; lanes are numbered as they first appear |
//! | 4, 4, 8, 8 | a commit: lane `u32::MAX - 1`, an epoch: all records of epochs up to it stand before |
//! | 4, 4, 8 | the end: lane `u32::MAX`, length 0, checksum |
//!
//! A checksum covers the frame's place too, so that no frame counts elsewhere. **The records read are a
//! prefix of those written, or an error**: reading ends at the first frame that is not whole, not
//! in order or not understood. Of a tape without its end the records behind the last commit are left
//! out, so that no lane tells of effects whose causes another one lacks.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::Path;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::bytes::{Cursor, Malformed};
use crate::decoder::Decoder;
use crate::header::Mark;
use crate::id::Names;
use crate::name::{NAME_MAX, Name, NameId};
use crate::record::{LaneKind, Member, Receipt, Record, StreamId};

const MAGIC: &[u8; 8] = b"RELIVRPC";
const MAJOR: u16 = 1;
/// 1: payloads, and the dependences of records.
const MINOR: u16 = 1;
const END: u32 = u32::MAX;
const COMMIT: u32 = u32::MAX - 1;

/// Bytes of a frame before its records.
const HEAD: usize = 16;

/// How a tape's file is called: the process's name and this.
pub const SUFFIX: &str = ".tape";

/// Most bytes of a frame's records.
pub const FRAME_MAX: usize = 8 << 20;

/// Why a tape cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum TapeError {
    /// The file cannot be read.
    #[error("the tape cannot be read: {0}")]
    Io(#[from] std::io::Error),
    /// It does not begin as a tape does.
    #[error("this is no tape: {0}")]
    NoTape(#[from] Malformed),
    /// It was written by a newer version.
    #[error("the tape has format {0}, and this is for format {MAJOR}")]
    Version(u16),
}

/// How a tape ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Recording was ended.
    Closed,
    /// Behind this many bytes there is nothing more, for this reason.
    Cut(usize, Malformed),
}

/// The history of one lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// Whose history.
    pub kind: LaneKind,
    /// Its name.
    pub name: Name,
    /// In their order.
    pub receipts: Vec<Receipt>,
    /// Results, by task and number of the operation.
    pub primitives: HashMap<(Member, u64), (Name, Vec<u8>)>,
    /// Payloads that came to tasks, in parts; with the option only.
    pub payloads: HashMap<(Member, StreamId), Vec<Vec<u8>>>,
    /// Tasks that were given up, and after how many operations.
    pub cancelled: HashMap<Member, u64>,
}

/// The recording of one process.
#[derive(Debug)]
pub struct Tape {
    /// The process's name.
    pub process: Name,
    /// In the order of their first records.
    pub lanes: Vec<Lane>,
    /// How it ends.
    pub end: End,
    /// Records of an epoch before this one are here.
    pub(crate) until: u64,
    /// For epochs of this process the marks that they depend on.
    pub(crate) depends: Vec<(u64, Mark)>,
    names: HashMap<NameId, Name>,
}

impl Names for Tape {
    fn name(&self, id: NameId) -> Option<&Name> {
        self.names.get(&id)
    }
}

/// The first bytes of a tape.
pub fn head(process: &Name) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&MAJOR.to_le_bytes());
    out.extend_from_slice(&MINOR.to_le_bytes());
    out.push(process.as_str().len() as u8);
    out.extend_from_slice(process.as_str().as_bytes());
    let sum = xxh3_64(&out);
    out.extend_from_slice(&sum.to_le_bytes());
    out
}

/// Appends a frame that stands at byte `at` of its tape.
pub fn frame(out: &mut Vec<u8>, at: u64, lane: u32, records: &[u8]) {
    let len = u32::try_from(records.len()).expect("a frame is bounded");
    out.extend_from_slice(&lane.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&sum(at, lane, records).to_le_bytes());
    out.extend_from_slice(records);
}

/// Appends the mark that all records of an epoch, and of those before it, stand before byte `at`.
pub fn commit(out: &mut Vec<u8>, at: u64, epoch: u64) {
    frame(out, at, COMMIT, &epoch.to_le_bytes());
}

/// Appends the mark of a tape that was ended.
pub fn end(out: &mut Vec<u8>, at: u64) {
    frame(out, at, END, &[]);
}

fn sum(at: u64, lane: u32, records: &[u8]) -> u64 {
    let mut place = [0; 20];
    place[..8].copy_from_slice(&at.to_le_bytes());
    place[8..12].copy_from_slice(&lane.to_le_bytes());
    place[12..].copy_from_slice(&(records.len() as u64).to_le_bytes());
    xxh3_64_with_seed(records, xxh3_64(&place))
}

impl Tape {
    /// Reads a file.
    pub fn open(path: &Path) -> Result<Self, TapeError> {
        Self::parse(&std::fs::read(path)?)
    }

    /// Reads bytes.
    pub fn parse(bytes: &[u8]) -> Result<Self, TapeError> {
        Self::parse_until(bytes, u64::MAX)
    }

    /// Reads bytes, and leaves out records of this epoch and later ones.
    pub(crate) fn parse_until(bytes: &[u8], until: u64) -> Result<Self, TapeError> {
        let mut cursor = Cursor::new(bytes);
        if cursor.take(MAGIC.len())? != MAGIC {
            return Err(Malformed("it does not begin as one").into());
        }
        let version = cursor.u32()?;
        let len = usize::from(cursor.byte()?);
        if len > NAME_MAX {
            return Err(Malformed("the process's name is too long").into());
        }
        let name = cursor.take(len)?;
        let covered = MAGIC.len() + 4 + 1 + len;
        if cursor.u64()? != xxh3_64(&bytes[..covered]) {
            return Err(Malformed("its first bytes are damaged").into());
        }
        if version as u16 != MAJOR {
            return Err(TapeError::Version(version as u16));
        }
        let text = str::from_utf8(name).map_err(|_| Malformed("the process's name is no text"))?;
        let process = Name::new(text)?;
        let mut tape = Self {
            names: HashMap::from([(process.id(), process.clone())]),
            process,
            lanes: Vec::new(),
            end: End::Closed,
            until: 0,
            depends: Vec::new(),
        };
        tape.end = tape.frames(bytes, covered + 8, until);
        Ok(tape)
    }

    /// All names that the tape tells.
    pub fn names(&self) -> impl Iterator<Item = &Name> {
        self.names.values()
    }

    fn frames(&mut self, bytes: &[u8], mut at: usize, until: u64) -> End {
        let mut pending = Pending {
            until,
            ..Pending::default()
        };
        loop {
            match self.frame(bytes, at, &mut pending) {
                Ok(Some(len)) => at += len,
                Ok(None) => {
                    self.take(&mut pending, u64::MAX);
                    return End::Closed;
                }
                Err(malformed) => return End::Cut(at, malformed),
            }
        }
    }

    /// Takes the frame at `at` whole or not at all, and gives its length; `None` at the end.
    fn frame(
        &mut self,
        bytes: &[u8],
        at: usize,
        pending: &mut Pending,
    ) -> Result<Option<usize>, Malformed> {
        let mut cursor = Cursor::new(&bytes[at..]);
        let number = cursor.u32()?;
        let len = cursor.u32()? as usize;
        let found = cursor.u64()?;
        if len > FRAME_MAX {
            return Err(Malformed("a frame is too long"));
        }
        let records = cursor.take(len)?;
        if found != sum(at as u64, number, records) {
            return Err(Malformed("a frame's checksum is wrong"));
        }
        match number {
            END if cursor.is_empty() && records.is_empty() => return Ok(None),
            END => return Err(Malformed("something follows the end")),
            COMMIT => self.take(pending, Cursor::new(records).u64()?),
            _ => self.records(number as usize, records, pending)?,
        }
        Ok(Some(HEAD + len))
    }

    /// Reads the records of a lane, which count when their epoch is committed.
    fn records(
        &mut self,
        index: usize,
        records: &[u8],
        pending: &mut Pending,
    ) -> Result<(), Malformed> {
        if index == pending.lanes.len() {
            pending.lanes.push(PendingLane::default());
        }
        let lane = pending.lanes.get_mut(index);
        let lane = lane.ok_or(Malformed("a lane was left out"))?;
        let known = lane.decoder.names().len();
        for record in lane.decoder.read(records)? {
            match record {
                Record::Define(kind, name) => {
                    if !pending.named.insert(name.id()) {
                        return Err(Malformed("two lanes have one name"));
                    }
                    self.names.insert(name.id(), name.clone());
                    self.lanes.push(Lane::empty(kind, name));
                }
                Record::Epoch(epoch) => lane.epoch = epoch,
                record => {
                    pending.filled.insert(index);
                    lane.records.push_back((lane.epoch, record));
                }
            }
        }
        if self.lanes.len() != pending.lanes.len() {
            return Err(Malformed("a lane begins with nothing"));
        }
        for name in &pending.lanes[index].decoder.names()[known..] {
            self.names.insert(name.id(), name.clone());
        }
        Ok(())
    }

    /// Lets the records up to an epoch count.
    fn take(&mut self, pending: &mut Pending, epoch: u64) {
        let until = epoch.saturating_add(1).min(pending.until);
        self.until = self.until.max(until);
        let lanes = &mut pending.lanes;
        pending.filled.retain(|&index| {
            let records = &mut lanes[index].records;
            while let Some((of, record)) = records.pop_front_if(|(of, _)| *of < until) {
                match record {
                    Record::Depends(mark) => self.depends.push((of, mark)),
                    record => self.lanes[index].add(record),
                }
            }
            !records.is_empty()
        });
    }
}

/// Records that were read and are not committed yet.
#[derive(Default)]
struct Pending {
    lanes: Vec<PendingLane>,
    /// Records of this epoch and later ones are left out.
    until: u64,
    /// The lanes that have such records.
    filled: HashSet<usize>,
    /// Names of lanes.
    named: HashSet<NameId>,
}

#[derive(Default)]
struct PendingLane {
    decoder: Decoder,
    epoch: u64,
    records: VecDeque<(u64, Record)>,
}

impl Lane {
    /// One without records.
    pub(crate) fn empty(kind: LaneKind, name: Name) -> Self {
        Self {
            kind,
            name,
            receipts: Vec::new(),
            primitives: HashMap::new(),
            payloads: HashMap::new(),
            cancelled: HashMap::new(),
        }
    }

    fn add(&mut self, record: Record) {
        match record {
            Record::Define(..) | Record::Epoch(_) | Record::Depends(_) => {}
            Record::Receipt(receipt) => self.receipts.push(receipt),
            Record::Primitive {
                task,
                number,
                name,
                value,
            } => {
                self.primitives.insert((task, number), (name, value));
            }
            Record::Payload { task, stream, part } => {
                self.payloads.entry((task, stream)).or_default().push(part);
            }
            Record::Cancelled { task, operations } => {
                self.cancelled.insert(task, operations);
            }
        }
    }
}
