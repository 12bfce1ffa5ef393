//! Translations kept from process to process, in files of the user's own: what a program's
//! earlier run has translated is there when it starts again (`relive_dbt`'s `snapshot` says
//! when it may be used). Everything here is an optimisation: what goes wrong is passed over in
//! silence, and the program is translated anew. It must never trust a file that somebody else
//! could have written.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use relive_dbt::Translator;
use relive_host::{GuestAddr, copy};

use crate::broker;
use crate::file_table::CHECKED;
use crate::file_table::{FileTable, Stamp};
use crate::memory::Memory;
use crate::resource_limits;
use crate::shm::shared as shm;

pub mod checked;

/// Names the folder; empty: nothing is kept.
pub const VARIABLE: &str = "RELIVE_CACHE_DIR";
/// Fewer new fragments than this are worth a file only now and then: one run in [`SELDOM`], or
/// fewer still ([`worthwhile`]).
const FEW: u64 = 32;
const SELDOM: u64 = 8;
/// Files with more fragments than this are written for many new ones only.
const LARGE: u64 = 20_000;
/// All files together take no more than this, for long.
const MOST_BYTES: u64 = 1 << 30;

/// The folder and the user that it belongs to.
struct Store {
    folder: PathBuf,
    user: u32,
}

static STORE: OnceLock<Option<Store>> = OnceLock::new();

fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Supervisors: chooses the folder, makes it and names it to the hosts that are started.
/// The calling process must have one thread.
pub fn choose() {
    let folder = chosen().unwrap_or_default();
    // SAFETY: the caller has one thread.
    unsafe { std::env::set_var(VARIABLE, folder) };
}

/// The folder for what is kept from run to run, which is made if need be; `None` if nothing is to
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

/// The chosen folder, made if need be, if only the calling user can have written what is in it.
pub fn own_folder() -> Option<PathBuf> {
    Store::at(chosen()?).map(|store| store.folder)
}

/// What is kept, for a replay, which opens nothing itself.
pub struct Served(Store);

impl Served {
    /// What the environment names.
    pub fn requested() -> Option<Self> {
        Store::requested().map(Self)
    }

    /// Translations with a key, and whether they have been checked.
    pub fn open(&self, key: u128) -> Option<(File, bool)> {
        let (file, meta) = self.0.open(key)?;
        let checked = checked::is_noted(&self.0, key, FileTable::stamp(&meta));
        Some((file, checked))
    }
}

fn store() -> Option<&'static Store> {
    STORE.get()?.as_ref()
}

/// The folder, if it still is the calling process's own.
pub fn folder() -> Option<&'static Path> {
    store()
        .filter(|s| s.user == user())
        .map(|s| s.folder.as_path())
}

/// Nobody but `user` can have written it.
fn private(meta: &Metadata, user: u32) -> bool {
    meta.uid() == user && meta.mode() & 0o022 == 0
}

impl Store {
    fn requested() -> Option<Self> {
        let named = std::env::var_os(VARIABLE).filter(|v| !v.is_empty())?;
        Self::at(PathBuf::from(named))
    }

    fn at(folder: PathBuf) -> Option<Self> {
        let user = user();
        private(&std::fs::metadata(&folder).ok()?, user).then_some(Self { folder, user })
    }

    fn path(&self, key: u128) -> PathBuf {
        self.folder.join(format!("{key:032x}.code"))
    }

    fn open(&self, key: u128) -> Option<(File, Metadata)> {
        let file = File::open(self.path(key)).ok()?;
        let meta = file.metadata().ok()?;
        (meta.is_file() && private(&meta, self.user)).then_some((file, meta))
    }
}

/// Takes over what is kept for a program, before its code is mapped. The translator must be
/// fresh or flushed. One process checks a file for its whole tree, and for later ones: it is
/// replaced as a whole, and never changed.
pub fn load(memory: &mut Memory, program: &[u8]) {
    let Some(store) = store() else { return };
    let key = memory.translator.key(program);
    let Some((file, meta)) = store.open(key) else {
        return;
    };
    let stamp = FileTable::stamp(&meta);
    let here = was_checked_here(stamp);
    let before = !here && checked::is_noted(store, key, stamp);
    match take_over(memory, key, &file, stamp, here || before) {
        // Damaged: it must not stand in the way of a better one.
        0 => drop(std::fs::remove_file(store.path(key))),
        _ if here || before => {}
        _ => checked::note(store, key, stamp),
    }
}

/// The same in a replay, which opens and writes nothing.
pub fn load_served(memory: &mut Memory, program: &[u8]) {
    let key = memory.translator.key(program);
    if let Some((file, checked)) = broker::translations(key)
        && let Some(stamp) = FileTable::stamp_of(&file)
    {
        let checked = checked || was_checked_here(stamp);
        take_over(memory, key, &file, stamp, checked);
    }
}

/// Whether a process of the tree has checked a file.
fn was_checked_here(stamp: Stamp) -> bool {
    shm().is_some_and(|shm| CHECKED.of(shm).find(stamp).is_some())
}

/// How many fragments a file has brought; then it is a checked one.
fn take_over(memory: &mut Memory, key: u128, file: &File, stamp: Stamp, checked: bool) -> u64 {
    let offered = memory.translator.load(key, file, checked);
    tracing::debug!(target: "dbt", "{offered} fragments taken over");
    if offered > 0
        && !was_checked_here(stamp)
        && let Some(shm) = shm()
    {
        CHECKED.of(shm).insert(stamp, [0; 32]);
    }
    offered
}

/// Keeps what this process has translated, if that is much more than what is kept already.
pub fn save(memory: &Memory, program: &[u8]) {
    let translator = &memory.translator;
    let Some(store) = store().filter(|s| s.user == user()) else {
        return;
    };
    tracing::debug!(target: "dbt", "at the end: {:?}", translator.stats());
    // What this process has taken over is a hint of what is there, without a look at it.
    if !worthwhile(translator, translator.taken_over()) {
        return;
    }
    let key = translator.key(program);
    let there = store
        .open(key)
        .and_then(|(file, _)| Translator::offered(key, &file))
        .unwrap_or(0);
    if !worthwhile(translator, there) {
        return;
    }
    let mut read = |at, buf: &mut [u8]| copy::read(GuestAddr(at), buf).is_ok();
    if let Some(bytes) = translator.save(key, &memory.lasting_code(), &mut read) {
        put(&store.path(key), &bytes);
        prune(&store.folder);
    }
}

/// Whether a file with `there` fragments should be replaced. A start that lacks a single
/// fragment pays for the decoder's tables, so that even a few are wanted in the end; but a thread
/// that has lost the processor in the middle of a fragment (and was stepped there) makes new ones in
/// every run, which are of use to nobody, and writing costs as much as there is to write.
fn worthwhile(translator: &Translator, there: u64) -> bool {
    let (fresh, here) = (
        translator.fresh(),
        translator.fresh() + translator.taken_over(),
    );
    if fresh == 0 || here <= there {
        return false;
    }
    let cut_short = translator.stats().step_fragments > 0;
    let seldom = match cut_short {
        true => (there / (8 * fresh)).max(SELDOM),
        false => SELDOM,
    };
    let now_and_then = u64::from(std::process::id()).is_multiple_of(seldom) && there < LARGE;
    fresh >= FEW && here >= there + there / 8 || now_and_then
}

/// A file beyond the program's own limit would bring it a signal.
fn fits(len: usize) -> bool {
    len as u64 <= resource_limits::longest_file()
}

/// Puts a whole file in place of what was there.
fn put(path: &Path, bytes: &[u8]) {
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
fn prune(folder: &Path) {
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
