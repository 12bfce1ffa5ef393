//! Finds files by their content: those of a trace, and debug information on this machine.
//!
//! Paths only suggest where to look. A file counts only if its content matches: the build id, the
//! checksum of `.gnu_debuglink`, the id of a split unit.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use object::Object;

/// Bytes that a map and its file must have in common: the first page, which holds the headers
/// and usually the build id.
pub(crate) const HEAD: usize = 4096;

/// Larger files are skipped: files are read into memory as a whole.
const MOST_BYTES: u64 = 1 << 30;

/// Debian's and others' folder of separate debug information.
const DEBUG: &str = "/usr/lib/debug";

/// Files that may hold modules or their debug information.
#[derive(Clone, Debug, Default)]
pub struct Finder {
    /// By first page; several files may begin alike.
    by_head: HashMap<Vec<u8>, Vec<PathBuf>>,
    /// Folders laid out as `/usr/lib/debug`.
    debug: Vec<PathBuf>,
    /// Folders of debuginfod's clients.
    caches: Vec<PathBuf>,
    /// Whether paths that files name are valid on this machine.
    here: bool,
}

impl Finder {
    /// A finder of this machine's debug information, without other files yet.
    #[must_use]
    pub fn of_this_machine() -> Self {
        Self {
            debug: vec![PathBuf::from(DEBUG)],
            caches: caches(),
            here: true,
            ..Self::default()
        }
    }

    /// Adds a folder of debug information, searched before all others. It is laid out as
    /// `/usr/lib/debug`.
    pub fn add_debug_folder(&mut self, folder: &Path) {
        self.debug.insert(0, folder.to_owned());
    }

    /// Adds all ELF files of a folder. Unreadable ones are skipped.
    pub fn add_files(&mut self, folder: &Path) {
        let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        paths.sort();
        for path in paths {
            if let Some(head) = head(&path) {
                self.by_head.entry(head).or_default().push(path);
            }
        }
    }

    /// The files that a map may show: those known, or the one at its path, with the same first
    /// page.
    pub(crate) fn files(&self, first_page: &[u8], path: &str) -> Vec<PathBuf> {
        if let Some(known) = self.by_head.get(first_page) {
            return known.clone();
        }
        let path = PathBuf::from(path);
        let same = path.is_absolute() && head(&path).is_some_and(|head| head == first_page);
        same.then_some(path).into_iter().collect()
    }

    /// Separate debug information for a build id: in folders by build id, or in a cache of
    /// debuginfod's clients.
    pub(crate) fn debug_file(&self, id: &[u8]) -> Option<PathBuf> {
        let name = below_build_id(id)?;
        let all: String = id.iter().map(|b| format!("{b:02x}")).collect();
        let folders = self.debug.iter().map(|folder| folder.join(&name));
        let caches = self
            .caches
            .iter()
            .map(|folder| folder.join(&all).join("debuginfo"));
        folders
            .chain(caches)
            .find(|path| read(path).is_some_and(|b| build_id(&b).as_deref() == Some(id)))
    }

    /// The file that `.gnu_debuglink` of the module at `module` names, with this checksum of
    /// its content: beside the module, in `.debug` there, or below a debug folder.
    pub(crate) fn linked(&self, module: &Path, name: &str, checksum: u32) -> Option<PathBuf> {
        let name = file_name(name)?;
        let folder = module.parent().unwrap_or(Path::new(""));
        let mut places = Vec::new();
        if self.here && folder.is_absolute() {
            places.push(folder.join(name));
            places.push(folder.join(".debug").join(name));
        }
        let below = relative(folder);
        places.extend(self.debug.iter().map(|root| root.join(&below).join(name)));
        places.into_iter().find(|path| {
            // `.gnu_debuglink` may name the module itself.
            path != module && checksum_of(path) == Some(checksum)
        })
    }

    /// The file that `.gnu_debugaltlink` of the file `of` names (dwz's), with this build id.
    pub(crate) fn supplement(&self, of: &Path, name: &str, id: &[u8]) -> Option<PathBuf> {
        let path = Path::new(name);
        let mut places = Vec::new();
        if self.here {
            places.push(of.parent().unwrap_or(Path::new("")).join(path));
        }
        if let Some(name) = below_build_id(id) {
            places.extend(self.debug.iter().map(|root| root.join(&name)));
        }
        // The folder that Debian and Fedora use for them.
        if let Some(name) = path.file_name() {
            places.extend(self.debug.iter().map(|root| root.join(".dwz").join(name)));
        }
        let same = |path: &PathBuf| read(path).is_some_and(|b| build_id(&b).as_deref() == Some(id));
        places.into_iter().find(same)
    }

    /// Possible paths of packages of split debug information (`.dwp`) of a file.
    pub(crate) fn packages(&self, of: &Path) -> Vec<PathBuf> {
        let Some(own) = of.file_name() else {
            return Vec::new();
        };
        let mut name = own.to_owned();
        name.push(".dwp");
        let beside = self.here.then(|| of.with_file_name(&name));
        let below = self.debug.iter().map(|root| root.join(&name));
        let places = beside.into_iter().chain(below);
        places.filter(|path| path.is_file()).collect()
    }

    /// Possible paths of a split unit that the compiler wrote to `name` in its folder `folder`.
    pub(crate) fn split(&self, folder: &str, name: &str) -> Vec<PathBuf> {
        let whole = Path::new(folder).join(name);
        let here = (self.here && whole.is_absolute()).then(|| whole.clone());
        let names = [relative(&whole), relative(Path::new(name))];
        let below = self.debug.iter();
        let below = below.flat_map(|root| names.iter().map(|name| root.join(name)));
        let places = here.into_iter().chain(below);
        places.filter(|path| path.is_file()).collect()
    }
}

/// The build id of an ELF file.
#[must_use]
pub fn build_id(bytes: &[u8]) -> Option<Vec<u8>> {
    let file = object::File::parse(bytes).ok()?;
    let id = file.build_id().ok()??;
    (!id.is_empty()).then(|| id.to_vec())
}

/// `.build-id/ab/cdef.debug`.
pub(crate) fn below_build_id(id: &[u8]) -> Option<String> {
    let (first, rest) = id.split_first()?;
    let rest: String = rest.iter().map(|b| format!("{b:02x}")).collect();
    Some(format!(".build-id/{first:02x}/{rest}.debug"))
}

/// A path below a debug folder: no part of it leads out.
pub(crate) fn relative(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir => {
                plain.pop();
            }
            _ => {}
        }
    }
    plain
}

/// A name without folders.
fn file_name(name: &str) -> Option<&str> {
    (!name.is_empty() && name != ".." && name != "." && !name.contains('/')).then_some(name)
}

/// Folders where clients of debuginfod cache files (debuginfod_find_debuginfo(3)).
fn caches() -> Vec<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from);
    let given = folder("DEBUGINFOD_CACHE_PATH");
    let base = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    let usual = base.map(|base| base.join("debuginfod_client"));
    given.into_iter().chain(usual).collect()
}

/// The checksum of `.gnu_debuglink`: zlib's CRC-32.
fn checksum_of(path: &Path) -> Option<u32> {
    let bytes = read(path)?;
    let mut sum = flate2::Crc::new();
    sum.update(&bytes);
    Some(sum.sum())
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
