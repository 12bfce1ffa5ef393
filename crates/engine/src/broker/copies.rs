//! The trace's copies of mapped files, as a replay gets them: each is hashed before it is first
//! used, because a changed one would be replayed as if it were right. What was found good is noted
//! beside the kept translations, until the machine is started anew. It must never say that a copy
//! is good whose content nobody has compared with its name.

use std::collections::HashMap;
use std::fs::{DirBuilder, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use relive_trace::{Error, FileId, FileStore};

use super::Outcome;
use crate::file_table::{FileTable, Stamp};
use crate::translations::{self, checked};

/// More notes than this are not kept, for long.
const MOST_NOTES: usize = 8192;
/// One process in so many looks how many there are.
const SELDOM: u32 = 16;

/// The copies of one trace.
pub struct Copies {
    files: FileStore,
    /// Where notes are; `None`: nowhere.
    notes: Option<PathBuf>,
    /// Found good before, with the file that it was.
    good: HashMap<FileId, Stamp>,
}

/// Why there is no copy: the class, and the error number where there is one.
pub type Refusal = (Outcome, i32);

impl Copies {
    /// Those of the trace in a folder.
    pub fn of(trace: &Path) -> Self {
        Self::noting(trace, translations::own_folder().map(|f| f.join("copies")))
    }

    fn noting(trace: &Path, notes: Option<PathBuf>) -> Self {
        Self {
            files: FileStore::new(trace),
            notes,
            good: HashMap::new(),
        }
    }

    /// The copy with this content.
    pub fn open(&mut self, id: FileId) -> Result<File, Refusal> {
        let file = self.files.open(id).map_err(|e| class(&e))?;
        let meta = file.metadata().map_err(|e| unreadable(&e))?;
        let stamp = FileTable::stamp(&meta);
        if self.good.get(&id) != Some(&stamp) {
            if !self.is_noted(id, stamp) {
                self.check(id, &file, &meta, stamp)?;
            }
            self.good.insert(id, stamp);
        }
        Ok(file)
    }

    /// Copies that are known to be good without a look at their content, at most so many. What
    /// cannot be had now can be asked for one by one, and is told then.
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
            let stamp = FileTable::stamp(&meta);
            if self.is_noted(id, stamp) {
                self.good.insert(id, stamp);
                known.push((id, file));
            }
        }
        known
    }

    fn is_noted(&self, id: FileId, stamp: Stamp) -> bool {
        let path = self.note(id, stamp);
        !checked::is_due() && path.is_some_and(|path| checked::says_so(&path, stamp))
    }

    fn note(&self, id: FileId, [one, two]: Stamp) -> Option<PathBuf> {
        let folder = self.notes.as_ref()?;
        // Part of the content's name is enough: the stamp says which file it is.
        let id = &id.to_string()[..16];
        Some(folder.join(format!("{id}-{one:016x}{two:016x}")))
    }

    fn check(&self, id: FileId, file: &File, meta: &Metadata, stamp: Stamp) -> Result<(), Refusal> {
        match FileId::of(file) {
            Ok(found) if found == id => {}
            Ok(_) => return Err((Outcome::Damaged, 0)),
            Err(e) => return Err(unreadable(&e)),
        }
        // The note speaks of the file as it is now: a change while it was read has another stamp,
        // and one soon after could have the same.
        if FileTable::settled(meta)
            && let (Some(folder), Some(path)) = (&self.notes, self.note(id, stamp))
        {
            let _ = DirBuilder::new().mode(0o700).create(folder);
            checked::write(&path, stamp);
            if std::process::id().is_multiple_of(SELDOM) {
                prune(folder);
            }
        }
        Ok(())
    }
}

fn class(error: &Error) -> Refusal {
    match error {
        Error::NoFile { .. } => (Outcome::Missing, 0),
        // A link in its place is not followed.
        Error::Read { source, .. } if source.raw_os_error() == Some(libc::ELOOP) => {
            (Outcome::Damaged, 0)
        }
        Error::Read { source, .. } => unreadable(source),
        _ => (Outcome::Damaged, 0),
    }
}

fn unreadable(error: &std::io::Error) -> Refusal {
    (
        Outcome::Unreadable,
        error.raw_os_error().unwrap_or(libc::EIO),
    )
}

/// Removes the older half of the notes when there are too many.
fn prune(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut notes: Vec<_> = entries
        .flatten()
        .filter_map(|e| Some((e.metadata().ok()?.modified().ok()?, e.path())))
        .collect();
    if notes.len() > MOST_NOTES {
        notes.sort_unstable();
        for (_, path) in &notes[..notes.len() / 2] {
            match std::fs::remove_file(path) {
                Err(e) if e.kind() != ErrorKind::NotFound => return,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, MetadataExt};

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
    fn a_copy_is_what_its_name_says() {
        let (base, id, path) = one(b"some content");
        let mut copies = Copies::noting(base.path(), None);
        let open = |copies: &mut Copies| copies.open(id).map(drop);
        assert_eq!(open(&mut copies), Ok(()));
        flip(&path);
        assert_eq!(
            open(&mut copies),
            Err((Outcome::Damaged, 0)),
            "a changed byte"
        );
        std::fs::write(&path, b"some").expect("it is ours");
        assert_eq!(open(&mut copies), Err((Outcome::Damaged, 0)), "cut off");
        std::fs::remove_file(&path).expect("it is ours");
        assert_eq!(open(&mut copies), Err((Outcome::Missing, 0)));
        std::os::unix::fs::symlink("/etc/passwd", &path).expect("a link");
        assert_eq!(open(&mut copies), Err((Outcome::Damaged, 0)), "a link");
        std::fs::remove_file(&path).expect("it is ours");
        std::fs::create_dir(&path).expect("a folder");
        assert_eq!(open(&mut copies), Err((Outcome::Damaged, 0)), "a folder");
    }

    #[test]
    fn a_note_is_of_the_very_file() {
        let (base, id, path) = one(b"some content");
        let notes = base.path().join("notes");
        let copies = || Copies::noting(base.path(), Some(notes.clone()));
        let stamp = |path: &Path| FileTable::stamp(&std::fs::metadata(path).expect("it is there"));
        copies().open(id).expect("it is good");
        assert!(!notes.exists(), "it has been changed just now");
        let old = stamp(&path);
        // As it would be two seconds later.
        std::fs::create_dir(&notes).expect("a folder");
        checked::write(&copies().note(id, old).expect("a folder"), old);
        let known: Vec<FileId> = copies().known(9).iter().map(|k| k.0).collect();
        let due = checked::is_due();
        assert_eq!(known, if due { vec![] } else { vec![id] });
        assert!(copies().known(0).is_empty());
        flip(&path);
        assert_ne!(stamp(&path), old, "its inode tells");
        assert!(copies().known(9).is_empty());
        assert_eq!(copies().open(id).map(drop), Err((Outcome::Damaged, 0)));
    }
}
