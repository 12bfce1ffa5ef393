//! Files that a process maps shared, to read them only, and that have been the same for long: a copy that sleeps need not have
//! their content to itself. It takes the content when it writes itself down, and finds out whether they were still the same
//! then. Must never take a file for one that stays if a recorded process has written to it.

use std::fs::metadata;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::file_table::{FileTable, Stamp};
use crate::kernel::mapped::{identity, is_settled};
use crate::sharing::users::USERS;
use crate::shm::Shm;
use crate::space::Region;
use crate::task::Task;

/// A map of a file that stays.
pub struct StayingFile {
    /// Where the map begins.
    pub start: u64,
    bytes: u64,
    path: PathBuf,
    stamp: Stamp,
}

impl StayingFile {
    /// `None`: the map may be written by somebody, or the file has changed not long ago.
    fn of(shm: Shm, region: &Region) -> Option<Self> {
        let reads = region.shared && !region.common && region.inode != 0;
        let path = Path::new(&*region.name);
        if !reads || !path.is_absolute() || USERS.of(&shm).ever_written(region.inode) {
            return None;
        }
        let meta = metadata(path).ok()?;
        let is_one = identity(&meta) == region.inode && is_settled(meta.st_mtime());
        is_one.then(|| Self {
            start: region.start,
            bytes: region.end - region.start,
            path: path.to_owned(),
            stamp: FileTable::stamp(&meta),
        })
    }

    /// Whether it has not changed since.
    pub fn has_stayed(&self) -> bool {
        let now = metadata(&self.path);
        now.is_ok_and(|now| FileTable::stamp(&now) == self.stamp)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// All maps of the process, and the bytes that it maps shared elsewhere.
pub fn of_process(shm: Shm, task: &Task) -> (Vec<StayingFile>, u64) {
    let memory = task.machine().memory();
    let shared = || memory.space.iter().filter(|region| region.shared);
    let all: u64 = shared().map(|region| region.end - region.start).sum();
    let stay: Vec<_> = shared().filter_map(|r| StayingFile::of(shm, r)).collect();
    let rest = all - stay.iter().map(|file| file.bytes).sum::<u64>();
    (stay, rest)
}
