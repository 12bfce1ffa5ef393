//! Notes of the files (kept translations, and copies of a trace) that an earlier run has checked,
//! so that not each start reads all of them again: a note beside each, which names the file as its
//! inode describes it, and the start of the machine. Until the next start of the machine the file's
//! bytes are those that were compared, but for a disk that errs; so now and then a file is checked
//! again. It must never say that a file is good whose content has not been compared.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::store::{Store, fits};
use crate::file_table::Stamp;

/// Says which start of the machine this is; proc_sys_kernel(5).
const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// One start in so many checks again.
const AGAIN: u32 = 64;

/// Whether the file with this stamp has been checked since the machine started, and is not to be
/// checked again.
pub(super) fn is_noted(store: &Store, key: u128, stamp: Stamp) -> bool {
    !is_due() && says_so(&path(store, key), stamp)
}

/// Whether this process shall check again files that are noted as checked.
pub fn is_due() -> bool {
    std::process::id().is_multiple_of(AGAIN)
}

/// The file with this stamp has been checked.
pub(super) fn note(store: &Store, key: u128, stamp: Stamp) {
    write(&path(store, key), stamp);
}

/// Notes at `path` that a file has been checked.
pub fn write(path: &Path, stamp: Stamp) {
    if let Some(note) = text(stamp).filter(|note| fits(note.len())) {
        let _ = write_over(path, &note);
    }
}

/// A note that is half written is of no file: so it need not be replaced as a whole, which costs
/// more.
fn write_over(path: &Path, note: &[u8]) -> std::io::Result<()> {
    let mut how = OpenOptions::new();
    how.write(true).create(true).truncate(false).mode(0o600);
    let file = how.open(path)?;
    if file.metadata()?.len() > note.len() as u64 {
        file.set_len(0)?;
    }
    file.write_all_at(note, 0)
}

/// Changes the note at `path` from one stamp to another, if it is of the first one.
pub fn renew(path: &Path, old: Stamp, new: Stamp) {
    if says_so(path, old) {
        write(path, new);
    }
}

fn path(store: &Store, key: u128) -> PathBuf {
    store.path(key).with_extension("checked")
}

/// Whether the note at `path` is of a file with this stamp, and of this start of the machine.
pub fn says_so(path: &Path, stamp: Stamp) -> bool {
    let there = std::fs::read(path).ok();
    there.is_some_and(|there| text(stamp).is_some_and(|note| there == note))
}

fn text([one, two]: Stamp) -> Option<Vec<u8>> {
    /// The present start. Process-wide: a machine starts once in the life of a process.
    static START: OnceLock<Option<Vec<u8>>> = OnceLock::new();
    let start = START.get_or_init(|| std::fs::read(BOOT).ok().filter(|boot| !boot.is_empty()));
    let mut text = start.clone()?;
    text.extend_from_slice(format!("{one:016x}{two:016x}\n").as_bytes());
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_speaks_of_one_file_and_one_start() {
        let folder = std::env::temp_dir().join(format!("relive-checked-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let store = Store { folder, user: 0 };
        let at = path(&store, 7);
        assert!(!says_so(&at, [1, 2]), "nothing is noted yet");
        note(&store, 7, [1, 2]);
        assert!(says_so(&at, [1, 2]));
        assert!(!says_so(&at, [1, 3]), "another file");
        assert!(!says_so(&path(&store, 8), [1, 2]), "another program");
        let mut old = std::fs::read(&at).unwrap();
        old[0] ^= 1;
        std::fs::write(&at, old).unwrap();
        assert!(!says_so(&at, [1, 2]), "the machine has started anew");
        std::fs::remove_dir_all(&store.folder).unwrap();
    }
}
