//! What a shared map shows of its file when it is made, and when it grows: the bytes of that part
//! of the file, or, of a file that nobody has been able to write through a map, the copy of the
//! whole file, which other maps and other recordings may have too. What a map costs depends on what
//! it shows, not on the size of its file.
//!
//! A part never says more than what the file held at that moment: others outside of the recording
//! may write the file between two maps.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use relive_host::addr::PAGE;
use relive_host::{GuestAddr, copy};
use relive_trace::{FileId, FileSource, KeptPart, Part, PartSource};

use super::Answer;
use super::mapped::{Mapped, identity, keep_known, known_files};
use crate::descriptor_limit::Room;
use crate::failure::{Failure, Result};
use crate::file_table::FileTable;
use crate::machine::machine;
use crate::space::Region;
use crate::task::Task;

/// In place of a copy's name in the data of mmap(2): what is shown is a part, which is said later.
const IS_PART: [u8; 32] = [0; 32];

/// The size of a file of which only what its map shows is known.
const UNKNOWN: u64 = u64::MAX;

/// What a map shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// The copy of a whole file.
    Whole(FileId),
    /// A part, and nothing is said of the rest.
    Part(KeptPart),
}

/// What the data of mmap(2) says of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct MapData<'a> {
    pub shown: Shown,
    /// The file's identity.
    pub inode: u64,
    /// Its name.
    pub name: &'a [u8],
}

impl MapData<'_> {
    /// Appends the data.
    pub fn encode(&self, data: &mut Vec<u8>) {
        data.extend_from_slice(match &self.shown {
            Shown::Whole(id) => &id.0,
            Shown::Part(_) => &IS_PART,
        });
        data.extend_from_slice(&self.inode.to_le_bytes());
        if let Shown::Part(part) = &self.shown {
            encode(part, data);
        }
        data.extend_from_slice(self.name);
    }

    /// Reads it again.
    ///
    /// # Errors
    /// The trace is damaged.
    pub fn decode(data: &[u8]) -> Result<MapData<'_>> {
        let read = || {
            let (id, rest) = data.split_first_chunk()?;
            let (inode, rest) = rest.split_first_chunk()?;
            let (shown, name) = match *id == IS_PART {
                true => decode(rest).map(|(part, name)| (Shown::Part(part), name))?,
                false => (Shown::Whole(FileId(*id)), rest),
            };
            let inode = u64::from_le_bytes(*inode);
            Some(MapData { shown, inode, name })
        };
        read().ok_or_else(damaged)
    }
}

/// Appends a part: its length, and it, or 0, and the name of its copy.
fn encode(part: &KeptPart, data: &mut Vec<u8>) {
    let (len, bytes) = match part {
        KeptPart::Inline(bytes) => (bytes.len() as u32, &bytes[..]),
        KeptPart::Copy(id) => (0, &id.0[..]),
    };
    data.extend_from_slice(&len.to_le_bytes());
    data.extend_from_slice(bytes);
}

/// The part that some data begins with, and the rest.
fn decode(data: &[u8]) -> Option<(KeptPart, &[u8])> {
    let (len, rest) = data.split_first_chunk()?;
    match u32::from_le_bytes(*len) {
        0 => {
            let (id, rest) = rest.split_first_chunk()?;
            Some((KeptPart::Copy(FileId(*id)), rest))
        }
        len => {
            let (bytes, rest) = rest.split_at_checked(len as usize)?;
            Some((KeptPart::Inline(bytes.to_vec()), rest))
        }
    }
}

fn damaged() -> Failure {
    Failure::setup("the trace is damaged: a map names no file")
}

impl Mapped {
    /// What a shared map of a range shows now.
    ///
    /// # Errors
    /// The trace cannot be written.
    pub fn shown(&self, start: u64, end: u64) -> Result<Shown> {
        // The call may have waited since the file was opened here.
        let meta = self.file().metadata().map_err(Failure::setup)?;
        let table = known_files(self.inode);
        let (size, holes) = (meta.size(), has_holes(&meta));
        let known = table.and_then(|t| t.find(FileTable::stamp(&meta)));
        if known.is_some() || table.is_some() && start == 0 && end >= size && !holes {
            return keep_known(self.file(), &meta).map(Shown::Whole);
        }
        let part = Part { start, end, size };
        let stamp = FileTable::stamp_of_part(&meta, start, end);
        if let Some(id) = table.and_then(|t| t.find(stamp)) {
            return Ok(Shown::Part(KeptPart::Copy(FileId(id))));
        }
        let mut source = FileSource {
            file: self.file(),
            holes: holes.then(|| self.again(&meta)).flatten(),
        };
        let kept = keep(part, &mut source)?;
        if let (Some(table), KeptPart::Copy(id)) = (table, &kept)
            && FileTable::settled(&meta)
        {
            table.insert(stamp, id.0);
        }
        Ok(Shown::Part(kept))
    }

    /// The file by a descriptor of its own, if that tells where its holes are.
    fn again(&self, meta: &Metadata) -> Option<File> {
        let fd = self.descriptor();
        if !tells_holes(fd) {
            return None;
        }
        let mut how = File::options();
        let how = how.read(true).custom_flags(libc::O_NONBLOCK);
        let again = how.open(format!("/proc/self/fd/{fd}")).ok()?;
        let there = again.metadata().ok()?;
        let same = (meta.dev(), meta.ino()) == (there.dev(), there.ino());
        same.then_some(again)
    }
}

/// Puts a part into the trace.
fn keep(part: Part, source: &mut dyn PartSource) -> Result<KeptPart> {
    let store = crate::reach::store();
    let kept = store.add_part(part, source).map_err(Failure::setup)?;
    if let KeptPart::Copy(id) = kept {
        crate::reach::added(&store, id);
    }
    Ok(kept)
}

/// Guest memory that shows a file.
struct MemorySource {
    /// Address of the file's first byte, modulo 2⁶⁴.
    base: u64,
}

impl PartSource for MemorySource {
    fn data(&mut self, at: u64) -> io::Result<Option<(u64, u64)>> {
        Ok(Some((at, u64::MAX)))
    }

    fn read(&mut self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let start = self.base.wrapping_add(at);
        Ok(match copy::read(GuestAddr(start), buffer) {
            Ok(()) => buffer.len(),
            Err(copy::BadAddress(bad)) => (bad.0 - start) as usize & !(PAGE as usize - 1),
        })
    }
}

/// A shared map has grown over a part of its file: what it shows there goes with the call.
///
/// # Errors
/// The trace cannot be written.
pub fn grows(task: &mut Task, region: &Region, offset: u64, range: (u64, u64)) -> Result<()> {
    let (start, end) = range;
    if !machine().mode.traits().keeps || !region.shared || region.inode == 0 || start >= end {
        return Ok(());
    }
    let _room = Room::for_host(true);
    let part = |size| Part {
        start: offset,
        end: offset.saturating_add(end - start),
        size,
    };
    let kept = match by_name(region) {
        Some((file, size)) => {
            let mut source = FileSource {
                file: &file,
                holes: file.try_clone().ok(),
            };
            keep(part(size), &mut source)
        }
        None => {
            let base = start.wrapping_sub(offset);
            let keep = || keep(part(UNKNOWN), &mut MemorySource { base });
            machine().memory().uncovered(start, end, keep)
        }
    };
    encode(&kept?, &mut task.log.extra);
    Ok(())
}

/// The file of a region and its size, if it has holes, which memory does not show, and still has
/// its name.
fn by_name(region: &Region) -> Option<(File, u64)> {
    let mut how = File::options();
    let how = how.read(true).custom_flags(libc::O_NONBLOCK);
    let file = how.open(&*region.name).ok()?;
    let meta = file.metadata().ok()?;
    let fits = meta.is_file() && identity(&meta) == region.inode && has_holes(&meta);
    (fits && tells_holes(file.as_raw_fd())).then_some((file, meta.size()))
}

/// Whether less is kept of a file than its length.
fn has_holes(meta: &Metadata) -> bool {
    meta.blocks().saturating_mul(512) < meta.size()
}

/// Whether what lseek(2) says of the holes of a file is true at any moment. Elsewhere bytes that
/// nobody has written back yet may be taken for a hole.
fn tells_holes(fd: i32) -> bool {
    const BTRFS: i64 = 0x9123_683e;
    const EXT4: i64 = 0xef53;
    const OVERLAY: i64 = 0x794c_7630;
    const TMPFS: i64 = 0x0102_1994;
    const XFS: i64 = 0x5846_5342;
    // SAFETY: only fills the structure.
    let fs = unsafe {
        let mut fs: libc::statfs = std::mem::zeroed();
        (libc::fstatfs(fd, &raw mut fs) == 0).then_some(fs.f_type)
    };
    fs.is_some_and(|fs| [BTRFS, EXT4, OVERLAY, TMPFS, XFS].contains(&fs))
}

/// The part that a grown map shows, by its tape; `None`: a tape from before 1.4 says it otherwise.
///
/// # Errors
/// The trace is damaged.
pub fn grown(answer: &Answer) -> Result<Option<Shown>> {
    if answer.extra.is_empty() {
        return Ok(None);
    }
    match decode(&answer.extra) {
        Some((part, [])) => Ok(Some(Shown::Part(part))),
        _ => Err(damaged()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_comes_back_and_half_of_it_is_damage() {
        let id = FileId([7; 32]);
        let all = [
            Shown::Whole(id),
            Shown::Part(KeptPart::Copy(id)),
            Shown::Part(KeptPart::Inline(vec![1, 2, 3])),
        ];
        for shown in all {
            let name = &b"/a/file"[..];
            let data = MapData {
                shown,
                inode: 99,
                name,
            };
            let mut bytes = Vec::new();
            data.encode(&mut bytes);
            assert_eq!(MapData::decode(&bytes).expect("it is whole"), data);
            let least = bytes.len() - name.len();
            for n in 0..bytes.len() {
                assert_eq!(MapData::decode(&bytes[..n]).is_ok(), n >= least, "{n}");
            }
        }
    }
}
