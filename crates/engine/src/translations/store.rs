//! The folder of files kept from run to run. It must never trust a file that another user could
//! have written; a failure is passed over in silence.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::process::Resource;

use crate::resource_limits;

/// Names the folder; empty: nothing is kept.
pub const VARIABLE: &str = "RELIVE_CACHE_DIR";
/// All files together take no more than this, for long.
const MOST_BYTES: u64 = 1 << 30;

/// The folder and the user that it belongs to.
pub struct Store {
    /// Where files lie.
    pub folder: PathBuf,
    /// The only user that may have written them.
    pub user: u32,
}

/// The store of this process. Process-wide: hosts find it in their environment, once.
static STORE: OnceLock<Option<Store>> = OnceLock::new();

/// The user that this process acts for.
#[must_use]
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Supervisors: chooses the folder, makes it and names it to the hosts that are started.
/// The calling process must have one thread.
pub fn choose() {
    let folder = chosen().unwrap_or_default();
    // SAFETY: the caller has one thread.
    unsafe { std::env::set_var(VARIABLE, folder) };
}

/// The folder for files kept from run to run, which is made if need be; `None` if nothing is to
/// be kept, or it cannot be made.
#[must_use]
pub fn chosen() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    let folder = match std::env::var_os(VARIABLE) {
        Some(named) => PathBuf::from(named),
        None => set("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
            .or_else(|| set("HOME").map(|home| Path::new(&home).join(".cache")))
            .map_or_else(PathBuf::new, |base| base.join("relive")),
    };
    let made = !folder.as_os_str().is_empty()
        && DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .is_ok();
    std::path::absolute(&folder).ok().filter(|_| made)
}

/// Hosts: remembers the folder, before anything is confined.
pub fn attach() {
    STORE.get_or_init(Store::requested);
}

/// The chosen folder, made if need be, if only the calling user can have written its files.
pub fn own_folder() -> Option<PathBuf> {
    Store::at(chosen()?).map(|store| store.folder)
}

/// The folder that this host remembers.
#[must_use]
pub fn store() -> Option<&'static Store> {
    STORE.get()?.as_ref()
}

/// The folder, if it still is the calling process's own.
pub fn folder() -> Option<&'static Path> {
    store()
        .filter(|s| s.user == user())
        .map(|s| s.folder.as_path())
}

/// No user but `user` can have written it.
fn private(meta: &Metadata, user: u32) -> bool {
    meta.uid() == user && meta.mode() & 0o022 == 0
}

impl Store {
    /// The folder that the environment names.
    #[must_use]
    pub fn requested() -> Option<Self> {
        let named = std::env::var_os(VARIABLE).filter(|v| !v.is_empty())?;
        Self::at(PathBuf::from(named))
    }

    fn at(folder: PathBuf) -> Option<Self> {
        let user = user();
        private(&std::fs::metadata(&folder).ok()?, user).then_some(Self { folder, user })
    }

    /// Where the file with a key lies.
    #[must_use]
    pub fn path(&self, key: u128) -> PathBuf {
        self.folder.join(format!("{key:032x}.code"))
    }

    /// The file with a key, if no other user can have written it.
    #[must_use]
    pub fn open(&self, key: u128) -> Option<(File, Metadata)> {
        self.open_at(&self.path(key))
    }

    /// The same of the one file with a name.
    #[must_use]
    pub fn open_named(&self, name: &str) -> Option<(File, Metadata)> {
        self.open_at(&self.folder.join(name))
    }

    fn open_at(&self, path: &Path) -> Option<(File, Metadata)> {
        let file = File::open(path).ok()?;
        let meta = file.metadata().ok()?;
        (meta.is_file() && private(&meta, self.user)).then_some((file, meta))
    }
}

/// A file beyond the program's own limit would bring it a signal.
#[must_use]
pub fn fits(len: usize) -> bool {
    len as u64 <= resource_limits::soft(Resource::Fsize)
}

/// Puts a whole file in place of the old one.
pub fn put(path: &Path, bytes: &[u8]) {
    if !fits(bytes.len()) {
        return;
    }
    let new = path.with_extension(std::process::id().to_string());
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&new);
    }
}

/// Removes the oldest files when all together take too much.
pub fn prune(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    let mut files: Vec<_> = entries
        .flatten()
        .filter_map(|e| {
            let meta = e.metadata().ok().filter(std::fs::Metadata::is_file)?;
            Some((meta.modified().ok()?, meta.len(), e.path()))
        })
        .collect();
    files.sort_unstable();
    let mut total: u64 = files.iter().map(|f| f.1).sum();
    for (_, len, path) in files {
        if total <= MOST_BYTES {
            break;
        }
        if std::fs::remove_file(path).is_ok() {
            total -= len;
        }
    }
}
