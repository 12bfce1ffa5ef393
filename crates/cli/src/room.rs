//! The disk space of a recording. Copies of libraries are hard links to files that other recordings
//! share, or that are kept for later ones: removing a recording frees only its own files. It must
//! never follow links out of the recording's folder.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::format;

/// Bytes of a recording's files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Of all of them.
    pub all: u64,
    /// Of those that have no other name.
    pub own: u64,
}

impl Room {
    /// The size of a folder's files. A recording in progress may change meanwhile, so unreadable
    /// files count as nothing.
    pub fn of(folder: &Path) -> Self {
        let mut room = Self::default();
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(data) if data.is_dir() => {
                    let inner = Self::of(&entry.path());
                    room.all += inner.all;
                    room.own += inner.own;
                }
                Ok(data) if data.is_file() => {
                    room.all += data.len();
                    if data.nlink() == 1 {
                        room.own += data.len();
                    }
                }
                _ => {}
            }
        }
        room
    }

    /// The sizes as text.
    pub fn shown(self) -> String {
        let all = format::size(self.all);
        if self.own == self.all {
            return format!("{all} on disk");
        }
        let own = format::size(self.own);
        format!("{own} on disk by itself, {all} with copies that others have too")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_another_name_is_not_its_own() {
        let folder = std::env::temp_dir().join(format!("relive-room-{}", std::process::id()));
        let (inside, outside) = (folder.join("trace/files"), folder.join("kept"));
        std::fs::create_dir_all(&inside).expect("a folder");
        std::fs::write(folder.join("trace/tapes"), [0; 10]).expect("a file");
        std::fs::write(&outside, [0; 100]).expect("a file");
        std::fs::hard_link(&outside, inside.join("a")).expect("a link");
        std::os::unix::fs::symlink(&outside, inside.join("b")).expect("a link");
        let room = Room::of(&folder.join("trace"));
        std::fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(room, Room { all: 110, own: 10 });
        assert_eq!(
            room.shown(),
            "10 B on disk by itself, 110 B with copies that others have too"
        );
        assert_eq!(Room { all: 5, own: 5 }.shown(), "5 B on disk");
    }
}
