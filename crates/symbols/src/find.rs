//! Finds files by their content: those of a trace, and debug information on this machine.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::module::build_id;

/// Bytes that a map and its file must have in common: the first page, which holds the headers
/// and usually the build id.
pub(crate) const HEAD: usize = 4096;

/// Larger files are left alone: they are read into memory as a whole.
const MOST_BYTES: u64 = 1 << 30;

/// Where Debian and others keep separate debug information.
const DEBUG: &str = "/usr/lib/debug/.build-id";

/// Files that modules may come from.
#[derive(Clone, Debug, Default)]
pub struct Finder {
    /// By first page.
    by_head: HashMap<Vec<u8>, PathBuf>,
    /// Folders with debug information by build id.
    debug: Vec<PathBuf>,
}

impl Finder {
    /// With this machine's debug information, and no other files yet.
    #[must_use]
    pub fn of_this_machine() -> Self {
        Self {
            by_head: HashMap::new(),
            debug: vec![PathBuf::from(DEBUG)],
        }
    }

    /// Also looks in a folder for debug information by build id, before all others. It is laid
    /// out as `/usr/lib/debug/.build-id`.
    pub fn add_debug_folder(&mut self, folder: &Path) {
        self.debug.insert(0, folder.to_owned());
    }

    /// Knows all ELF files of a folder. What cannot be read is passed over.
    pub fn add_files(&mut self, folder: &Path) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if let Some(head) = head(&entry.path()) {
                self.by_head.insert(head, entry.path());
            }
        }
    }

    /// The file that a map shows: known, or at its path with the same first page.
    pub(crate) fn file(&self, first_page: &[u8], path: &str) -> Option<PathBuf> {
        let known = self.by_head.get(first_page).cloned();
        known.or_else(|| {
            let path = PathBuf::from(path);
            (path.is_absolute() && head(&path)? == first_page).then_some(path)
        })
    }

    /// Separate debug information for a build id.
    #[must_use]
    pub fn debug_file(&self, id: &[u8]) -> Option<PathBuf> {
        let (first, rest) = id.split_first()?;
        let rest: String = rest.iter().map(|b| format!("{b:02x}")).collect();
        let name = format!("{first:02x}/{rest}.debug");
        self.debug
            .iter()
            .map(|folder| folder.join(&name))
            .find(|path| {
                let same = |bytes: Vec<u8>| build_id(&bytes).as_deref() == Some(id);
                read(path).is_some_and(same)
            })
    }
}

/// The first page of an ELF file, padded with zeros as a map of it is.
fn head(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(HEAD);
    let file = open(path)?;
    file.take(HEAD as u64).read_to_end(&mut bytes).ok()?;
    bytes.starts_with(b"\x7fELF").then(|| {
        bytes.resize(HEAD, 0);
        bytes
    })
}

fn open(path: &Path) -> Option<File> {
    // A named pipe would wait for a writer; only regular files are opened.
    let about = std::fs::metadata(path).ok()?;
    (about.is_file() && about.len() <= MOST_BYTES)
        .then(|| File::open(path).ok())
        .flatten()
}

/// A whole file, if it is not too large.
pub(crate) fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
