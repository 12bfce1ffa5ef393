//! The trace's copies of mapped files, as a replay gets them: each is hashed before it is first
//! used, because a changed one would be replayed as if it were right. A copy found good is noted
//! beside the kept translations, until the machine is started anew. It must never say that a copy
//! is good whose content has not been compared with its name.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::path::Path;

use relive_trace::{Error, FileId, FileStore};

use super::wire::BrokerOutcome;
use crate::copy_notes::{Notes, is_settled};
use crate::file_table::{FileTable, Stamp};
use crate::translations::store;

/// The copies of one trace.
pub struct Copies {
    files: FileStore,
    /// `None`: nothing is noted.
    notes: Option<Notes>,
    /// Found good before, with the file that it was.
    good: HashMap<FileId, Stamp>,
}

/// Why there is no copy: the class, and the error number where there is one.
pub type CopyRefusal = (BrokerOutcome, i32);

impl Copies {
    /// Those of the trace in a folder.
    pub fn of(trace: &Path) -> Self {
        Self::noting(trace, store::own_folder().map(|f| Notes::within(&f)))
    }

    fn noting(trace: &Path, notes: Option<Notes>) -> Self {
        Self {
            files: FileStore::new(trace),
            notes,
            good: HashMap::new(),
        }
    }

    /// The copy with this content.
    pub fn open(&mut self, id: FileId) -> Result<File, CopyRefusal> {
        let file = self.files.open(id).map_err(|e| class(&e))?;
        let meta = file.metadata().map_err(|e| unreadable(&e))?;
        let stamp = FileTable::stamp(&meta);
        if self.good.get(&id) != Some(&stamp) {
            if !self.is_noted(id, &meta) {
                self.check(id, &file, &meta)?;
            }
            self.good.insert(id, stamp);
        }
        Ok(file)
    }

    /// Copies that are known to be good without a look at their content, at most so many. The
    /// others can be asked for one by one, and a failure is told then.
    pub fn known(&mut self, most: usize) -> Vec<(FileId, File)> {
        let mut known = Vec::new();
        for id in self.files.ids().unwrap_or_default() {
            if known.len() == most {
                break;
            }
            let opened = self.files.open(id).ok();
            let Some((file, meta)) = opened.and_then(|f| f.metadata().ok().map(|meta| (f, meta)))
            else {
                continue;
            };
            if self.is_noted(id, &meta) {
                self.good.insert(id, FileTable::stamp(&meta));
                known.push((id, file));
            }
        }
        known
    }

    fn is_noted(&self, id: FileId, meta: &Metadata) -> bool {
        self.notes
            .as_ref()
            .is_some_and(|notes| notes.hold(id, meta))
    }

    fn check(&self, id: FileId, file: &File, meta: &Metadata) -> Result<(), CopyRefusal> {
        // A change from here on must show in the inode, of which the note speaks.
        let notes = self.notes.as_ref().filter(|_| is_settled(meta));
        match FileId::of(file) {
            Ok(found) if found == id => {}
            Ok(_) => return Err((BrokerOutcome::Damaged, 0)),
            Err(e) => return Err(unreadable(&e)),
        }
        if let Some(notes) = notes {
            notes.write(id, meta);
        }
        Ok(())
    }
}

fn class(error: &Error) -> CopyRefusal {
    match error {
        Error::NoFile { .. } => (BrokerOutcome::Missing, 0),
        // A link in its place is not followed.
        Error::Read { source, .. } if source.raw_os_error() == Some(libc::ELOOP) => {
            (BrokerOutcome::Damaged, 0)
        }
        Error::Read { source, .. } => unreadable(source),
        _ => (BrokerOutcome::Damaged, 0),
    }
}

fn unreadable(error: &std::io::Error) -> CopyRefusal {
    (
        BrokerOutcome::Unreadable,
        error.raw_os_error().unwrap_or(libc::EIO),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translations::checked;
    use std::fs::FileTimes;
    use std::os::unix::fs::{FileExt, MetadataExt};
    use std::path::PathBuf;
    use std::time::{Duration, SystemTime};

    /// A trace folder with one copy, whose content is `text`.
    fn one(text: &[u8]) -> (tempfile::TempDir, FileId, PathBuf) {
        let base = tempfile::tempdir().expect("a folder");
        let source = base.path().join("source");
        std::fs::write(&source, text).expect("a file");
        std::fs::create_dir(base.path().join("files")).expect("a folder");
        let store = FileStore::new(base.path());
        let id = store.add(&File::open(&source).expect("it is there"));
        let id = id.expect("it is kept");
        let path = store.path(id);
        (base, id, path)
    }

    fn flip(path: &Path) {
        let before = std::fs::metadata(path).expect("it is there");
        let file = std::fs::OpenOptions::new().write(true).open(path);
        let file = file.expect("it is ours");
        file.write_all_at(b"X", 3).expect("it can be written");
        let times = std::fs::FileTimes::new().set_modified(before.modified().expect("a time"));
        file.set_times(times).expect("it is ours");
        let after = file.metadata().expect("it is there");
        assert_eq!(
            (before.mtime(), before.mtime_nsec(), before.len()),
            (after.mtime(), after.mtime_nsec(), after.len())
        );
    }

    #[test]
    fn a_copy_has_the_content_that_its_name_stands_for() {
        let (base, id, path) = one(b"some content");
        let mut copies = Copies::noting(base.path(), None);
        let open = |copies: &mut Copies| copies.open(id).map(drop);
        assert_eq!(open(&mut copies), Ok(()));
        flip(&path);
        assert_eq!(
            open(&mut copies),
            Err((BrokerOutcome::Damaged, 0)),
            "a changed byte"
        );
        std::fs::write(&path, b"some").expect("it is ours");
        assert_eq!(
            open(&mut copies),
            Err((BrokerOutcome::Damaged, 0)),
            "cut off"
        );
        std::fs::remove_file(&path).expect("it is ours");
        assert_eq!(open(&mut copies), Err((BrokerOutcome::Missing, 0)));
        std::os::unix::fs::symlink("/etc/passwd", &path).expect("a link");
        assert_eq!(
            open(&mut copies),
            Err((BrokerOutcome::Damaged, 0)),
            "a link"
        );
        std::fs::remove_file(&path).expect("it is ours");
        std::fs::create_dir(&path).expect("a folder");
        assert_eq!(
            open(&mut copies),
            Err((BrokerOutcome::Damaged, 0)),
            "a folder"
        );
    }

    /// As if nothing had been written for a while.
    fn settle(path: &Path) {
        let file = File::options().write(true).open(path).expect("it is ours");
        let old = SystemTime::now() - Duration::from_secs(100);
        let times = FileTimes::new().set_modified(old);
        file.set_times(times).expect("it is ours");
        std::thread::sleep(Duration::from_millis(20));
    }

    #[test]
    fn a_note_is_of_the_very_file() {
        let (base, id, path) = one(b"some content");
        let notes = || Notes::within(base.path());
        let copies = || Copies::noting(base.path(), Some(notes()));
        let meta = |path: &Path| std::fs::metadata(path).expect("it is there");
        settle(&path);
        let old = meta(&path);
        copies().open(id).expect("it is good");
        let due = checked::is_due();
        let known: Vec<FileId> = copies().known(9).iter().map(|k| k.0).collect();
        assert_eq!(known, if due { vec![] } else { vec![id] });
        assert!(copies().known(0).is_empty());
        flip(&path);
        assert_ne!(
            FileTable::stamp(&old),
            FileTable::stamp(&meta(&path)),
            "its inode tells"
        );
        assert!(copies().known(9).is_empty());
        assert_eq!(
            copies().open(id).map(drop),
            Err((BrokerOutcome::Damaged, 0))
        );
    }

    #[test]
    fn a_file_that_has_just_been_written_is_not_noted() {
        let (base, id, _) = one(b"some content");
        let mut copies = Copies::noting(base.path(), Some(Notes::within(base.path())));
        copies.open(id).expect("it is good");
        assert!(!base.path().join("copies").exists());
    }

    #[test]
    fn a_link_renews_a_note_that_held_and_no_other() {
        let (base, id, path) = one(b"some content");
        let notes = || Notes::within(base.path());
        let meta = || std::fs::metadata(&path).expect("it is there");
        let says_so = || {
            let file = std::fs::read_dir(base.path().join("copies"));
            let file = file.expect("a folder").next().expect("a note");
            let path = file.expect("its name").path();
            checked::says_so(&path, FileTable::stamp(&meta()))
        };
        let link = |name: &str, between: &dyn Fn()| {
            let before = meta();
            std::fs::hard_link(&path, base.path().join(name)).expect("a link");
            between();
            notes().renew(id, &before, &meta());
        };
        settle(&path);
        notes().write(id, &meta());
        assert!(says_so());
        link("one", &|| ());
        assert!(says_so(), "its link has moved its time");
        link("two", &|| {
            std::fs::write(&path, b"some other!!").expect("ours")
        });
        assert!(!says_so(), "changed meanwhile");
        settle(&path);
        link("three", &|| ());
        assert!(!says_so(), "changed before");
    }
}
