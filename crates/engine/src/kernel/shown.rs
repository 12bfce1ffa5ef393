//! The content that a shared map shows of its file when it is made, and when it grows: the bytes of
//! that part of the file; or, if no process has been able to write the file through a map, the copy of
//! the whole file, which other maps and other recordings may share. The cost of a map depends on the
//! size of its part, not on the size of its file.
//!
//! A part must never be taken for the file's content at another moment: processes outside of the
//! recording may write the file between two maps.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use relive_host::addr::PAGE;
use relive_host::{GuestAddr, copy};
use relive_trace::{FileSource, KeptPart, Part, PartSource};

use super::mapped::{Mapped, identity, keep_known, known_files};
use crate::descriptor::file_system;
use crate::descriptor_limit::Room;
use crate::failure::{Failure, Result};
use crate::file_table::FileTable;
use crate::machine::Machine;
use crate::memory::content::KeptContent;
use crate::space::Region;
use crate::task::Task;

/// The size of a file of which only the mapped part is known.
const UNKNOWN: u64 = u64::MAX;

impl Mapped {
    /// The content that a shared map of a range shows now.
    ///
    /// # Errors
    /// The trace cannot be written.
    pub fn shown(&self, machine: &Machine, start: u64, end: u64) -> Result<KeptContent> {
        // The call may have waited since the file was opened here.
        let meta = self.file().metadata().map_err(Failure::setup)?;
        let table = known_files(machine, self.inode);
        let (size, holes) = (meta.size(), has_holes(&meta));
        let known = table.and_then(|t| t.find(FileTable::stamp(&meta)));
        if known.is_some() || table.is_some() && start == 0 && end >= size && !holes {
            return keep_known(machine, self.file(), &meta).map(KeptContent::Whole);
        }
        let part = Part { start, end, size };
        let stamp = FileTable::stamp_of_part(&meta, start, end);
        if let Some(id) = table.and_then(|t| t.find(stamp)) {
            return Ok(KeptContent::Part(KeptPart::Copy(id)));
        }
        let mut source = FileSource {
            file: self.file(),
            holes: holes.then(|| self.reopen(&meta)).flatten(),
        };
        let kept = keep(machine, part, &mut source)?;
        if let (Some(table), KeptPart::Copy(id)) = (table, &kept)
            && FileTable::settled(&meta)
        {
            table.insert(stamp, *id);
        }
        Ok(KeptContent::Part(kept))
    }

    /// The file, opened by a descriptor of the host's own, if its file system tells where its holes are.
    fn reopen(&self, meta: &Metadata) -> Option<File> {
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
fn keep(machine: &Machine, part: Part, source: &mut dyn PartSource) -> Result<KeptPart> {
    let store = crate::retained_fds::store(&machine.trace);
    let kept = store.add_part(part, source).map_err(Failure::setup)?;
    if let KeptPart::Copy(id) = kept {
        crate::retained_fds::added(&store, id);
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

/// Puts the part of its file over which a shared map has grown into the trace, with the call.
///
/// # Errors
/// The trace cannot be written.
pub fn grows(task: &mut Task, region: &Region, offset: u64, range: (u64, u64)) -> Result<()> {
    let (start, end) = range;
    if !task.traits().keeps || !region.shared || region.inode == 0 || start >= end {
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
            keep(task.machine(), part(size), &mut source)
        }
        None => {
            let base = start.wrapping_sub(offset);
            let machine = task.machine();
            let keep = || keep(machine, part(UNKNOWN), &mut MemorySource { base });
            machine.memory().uncovered(start, end, keep)?
        }
    };
    KeptContent::note_part(&kept?, &mut task.log.extra);
    Ok(())
}

/// The file of a region and its size, if it still has its name, and has holes, which memory does not
/// show.
fn by_name(region: &Region) -> Option<(File, u64)> {
    let mut how = File::options();
    let how = how.read(true).custom_flags(libc::O_NONBLOCK);
    let file = how.open(&*region.name).ok()?;
    let meta = file.metadata().ok()?;
    let fits = meta.is_file() && identity(&meta) == region.inode && has_holes(&meta);
    (fits && tells_holes(file.as_raw_fd())).then_some((file, meta.size()))
}

/// Whether a file has fewer blocks than its length needs.
fn has_holes(meta: &Metadata) -> bool {
    meta.blocks().saturating_mul(512) < meta.size()
}

/// Whether lseek(2) finds the holes of a file correctly at any moment. On other file systems it may
/// take bytes that are not written back yet for a hole.
fn tells_holes(fd: i32) -> bool {
    const BTRFS: i64 = 0x9123_683e;
    const EXT4: i64 = 0xef53;
    const OVERLAY: i64 = 0x794c_7630;
    const TMPFS: i64 = 0x0102_1994;
    const XFS: i64 = 0x5846_5342;
    file_system(fd).is_some_and(|fs| [BTRFS, EXT4, OVERLAY, TMPFS, XFS].contains(&fs))
}

/// The part that a grown map shows, by the data of its call; `None`: there is none, or the tape is from
/// before 1.4 and has it in another form.
///
/// # Errors
/// The trace is damaged.
pub fn grown(data: &[u8]) -> Result<Option<KeptContent>> {
    if data.is_empty() {
        return Ok(None);
    }
    match KeptContent::part(data) {
        Some((shown, [])) => Ok(Some(shown)),
        _ => Err(Failure::setup(
            "the trace is damaged: a map that grows shows half of a part",
        )),
    }
}
