//! The content of mapped files in a replay: the trace's copies, and the one memory of each file that is
//! mapped shared. Must never open a file of the machine's.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use relive_trace::{Encoded, FileId, KeptPart, PartReader};

use super::hook_state::{self, with};
use crate::broker;
use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::memory::content::KeptContent;
use crate::sharing::objects::{Objects, ROOM, SHARED_FILES};

/// Opens the trace's copy of a mapped file.
///
/// # Errors
/// The trace lacks it.
pub fn open_copy(shown: &KeptContent) -> Result<File> {
    match shown {
        KeptContent::Whole(id) => copy_of(hook_state::machine(), *id),
        KeptContent::Part(_) => Err(Failure::setup(
            "the trace is damaged: a private map shows a part of its file",
        )),
    }
}

/// Opens a copy by its name.
///
/// # Errors
/// The trace lacks it.
pub fn copy_of(machine: &Machine, id: FileId) -> Result<File> {
    broker::copy(&machine.trace, id)
}

/// The one memory of a file that is mapped shared, brought to the content that it had when
/// the map at hand was recorded, at least in the range that the map shows, and its offset in the
/// file that is returned. It reaches at least to the end of the range. Maps of the same file show
/// each other's changes, in all processes.
///
/// # Errors
/// The trace lacks the copy, or it is of another part, or there is no memory for it.
pub fn shared_copy(inode: u64, shown: &KeptContent, range: (u64, u64)) -> Result<(File, u64)> {
    let pool = with(|s| s.pool.try_clone()).map_err(no_copy)?;
    let objects = objects()?;
    let base = match shown {
        KeptContent::Whole(id) => objects.fill(&pool, inode, &copy_of(hook_state::machine(), *id)?),
        KeptContent::Part(KeptPart::Inline(bytes)) => {
            let mut part = part_of(Encoded::Inline(bytes), range)?;
            objects.fill_part(&pool, inode, &mut part)
        }
        KeptContent::Part(KeptPart::Copy(id)) => {
            let copy = copy_of(hook_state::machine(), *id)?;
            let len = crate::sharing::objects::length(&copy).map_err(no_copy)?;
            let mut part = part_of(Encoded::Copy(&copy, len), range)?;
            objects.fill_part(&pool, inode, &mut part)
        }
    };
    let base = base.map_err(no_copy)?.filter(|_| range.1 <= ROOM);
    let base = base.ok_or_else(|| {
        Failure::setup("the recording shares more files, or larger ones, than a replay can")
    })?;
    objects.reach(&pool, base + range.1).map_err(no_copy)?;
    Ok((pool, base))
}

/// A part of a file, checked to be the range that a map shows.
fn part_of(encoded: Encoded<'_>, range: (u64, u64)) -> Result<PartReader<'_>> {
    let part = PartReader::new(encoded).map_err(no_copy)?;
    if (part.part().start, part.part().end) != range {
        return Err(Failure::setup(
            "the trace is damaged: a map shows another part of its file than it names",
        ));
    }
    Ok(part)
}

/// A map of a file that is mapped shared has grown over a range: its memory reaches at least to the
/// end from now on, as the file may have grown before or may yet.
///
/// # Errors
/// As [`shared_copy`].
pub fn shared_grows(inode: u64, shown: Option<&KeptContent>, range: (u64, u64)) -> Result<()> {
    if let Some(shown) = shown {
        return shared_copy(inode, shown, range).map(drop);
    }
    let objects = objects()?;
    match objects.base(inode) {
        Some(base) => with(|s| {
            objects
                .reach(&s.pool, base.saturating_add(range.1))
                .map_err(no_copy)
        }),
        None => Ok(()),
    }
}

/// All of a file, by positioned reads (the standard library's way asks for its length by a call
/// that takes a path).
pub fn read_all(file: &File) -> io::Result<Vec<u8>> {
    let (mut all, mut part) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        match file.read_at(&mut part, all.len() as u64) {
            Ok(0) => return Ok(all),
            Ok(n) => all.extend_from_slice(&part[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

fn objects() -> Result<&'static Objects> {
    let shm = hook_state::machine().shm.as_ref();
    let shm = shm.ok_or_else(|| Failure::internal("a replay has shared memory"))?;
    Ok(SHARED_FILES.of(shm))
}

fn no_copy(e: std::io::Error) -> Failure {
    Failure::setup(format!(
        "cannot make a copy of a shared file: {e}; is there a limit on file size (`ulimit -f`)?"
    ))
}
