//! The debug information of one file: its sections, the part that dwz moved into a second file, and
//! the split units in further files.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::{Context, LookupContinuation, LookupResult, SplitDwarfLoad};
use gimli::{DwarfPackage, DwoId, EndianArcSlice, LittleEndian, Reader, SectionId};
use object::Object;

use crate::find::{Finder, read, relative};
use crate::inflate;

/// Bytes of a section.
pub(crate) type Bytes = EndianArcSlice<LittleEndian>;
/// Sections of debug information.
pub(crate) type Dwarf = gimli::Dwarf<Bytes>;

/// Inlined calls shown for one address, at most.
const MOST_INLINED: usize = 64;

/// A file that continues debug information, and its place below a debug folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Companion {
    /// Its path.
    pub path: PathBuf,
    /// Its place below a folder laid out as `/usr/lib/debug`.
    pub below: PathBuf,
    /// Another such place, preferred if no other file has it: gdb looks there only.
    pub better: Option<PathBuf>,
}

/// A source line, and the function that it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Demangled name.
    pub function: Option<String>,
    /// Path of the source, as the compiler wrote it.
    pub file: Option<String>,
    /// Line from 1.
    pub line: Option<u32>,
}

/// Debug information.
pub(crate) struct Debug {
    pub(crate) dwarf: Arc<Dwarf>,
    lines: Context<Bytes>,
    finder: Option<Arc<Finder>>,
    packages: Vec<(Companion, DwarfPackage<Bytes>)>,
    /// Split units that were searched for.
    split: RefCell<HashMap<u64, Option<Arc<Dwarf>>>>,
    /// Files that were found so far.
    companions: RefCell<Vec<Companion>>,
}

impl Debug {
    /// Debug information of the file `of`, if it has any. `name` is the module's name, from which
    /// that of the package of its split units derives.
    pub(crate) fn of(
        file: &object::File<'_>,
        of: &Path,
        name: &Path,
        finder: Option<&Arc<Finder>>,
    ) -> Option<Self> {
        inflate::find(file, ".debug_info")?;
        let mut dwarf = sections(file, |id| Some(id.name()))?;
        let mut companions = Vec::new();
        if let (Some(finder), Ok(Some((link, id)))) = (finder, file.gnu_debugaltlink()) {
            let link = String::from_utf8_lossy(link);
            let path = finder.supplement(of, &link, id);
            let bytes = path.as_ref().and_then(|path| read(path));
            let supplement = bytes.as_deref().and_then(|b| object::File::parse(b).ok());
            if let (Some(path), Some(file)) = (path, supplement)
                && dwarf
                    .load_sup(|id| Ok::<_, gimli::Error>(section(&file, id.name())))
                    .is_ok()
            {
                let below = crate::find::below_build_id(id).unwrap_or_default().into();
                companions.push(Companion {
                    path,
                    below,
                    better: None,
                });
            }
        }
        let dwarf = Arc::new(dwarf);
        let places = finder.map(|f| f.packages(name)).unwrap_or_default();
        Some(Self {
            lines: Context::from_arc_dwarf(Arc::clone(&dwarf)).ok()?,
            dwarf,
            finder: finder.cloned(),
            packages: places.iter().filter_map(|path| package(path)).collect(),
            split: RefCell::default(),
            companions: RefCell::new(companions),
        })
    }

    /// All files that were found so far, including those of all split units.
    pub(crate) fn companions(&self) -> Vec<Companion> {
        let mut units = self.dwarf.units();
        while let Ok(Some(header)) = units.next() {
            if let Ok(unit) = self.dwarf.unit(header) {
                let _ = self.split_of(&self.dwarf, &unit);
            }
        }
        let mut all = self.companions.borrow().clone();
        all.sort();
        all.dedup();
        all
    }

    /// The source lines of an address: the innermost inlined function first.
    pub(crate) fn lines_at(&self, address: u64) -> Vec<Line> {
        let mut all = Vec::new();
        // The range of one address ends behind it.
        if address == u64::MAX {
            return all;
        }
        let mut lookup = self.lines.find_frames(address);
        let frames = loop {
            match lookup {
                LookupResult::Output(frames) => break frames,
                LookupResult::Load { load, continuation } => {
                    lookup = continuation.resume(self.load(&load));
                }
            }
        };
        let Ok(mut frames) = frames else { return all };
        while let Ok(Some(frame)) = frames.next() {
            if all.len() == MOST_INLINED {
                break;
            }
            let name = frame.function.as_ref();
            all.push(Line {
                function: name.and_then(|f| Some(f.demangle().ok()?.into_owned())),
                file: frame
                    .location
                    .as_ref()
                    .and_then(|l| l.file.map(str::to_owned)),
                line: frame.location.as_ref().and_then(|l| l.line),
            });
        }
        all
    }

    /// The sections of the split unit behind a skeleton; `None` if the unit is no skeleton, or its
    /// file is missing.
    pub(crate) fn split_of(
        &self,
        parent: &Arc<Dwarf>,
        skeleton: &gimli::Unit<Bytes>,
    ) -> Option<Arc<Dwarf>> {
        let id = skeleton.dwo_id?;
        let name = skeleton.dwo_name().ok()??;
        self.load(&SplitDwarfLoad {
            dwo_id: id,
            comp_dir: skeleton.comp_dir.clone(),
            path: parent.attr_string(skeleton, name).ok(),
            parent: Arc::clone(parent),
        })
    }

    fn load(&self, wanted: &SplitDwarfLoad<Bytes>) -> Option<Arc<Dwarf>> {
        let id = wanted.dwo_id;
        if let Some(known) = self.split.borrow().get(&id.0) {
            return known.clone();
        }
        let found = self.look_for(wanted);
        self.split.borrow_mut().insert(id.0, found.clone());
        found
    }

    fn look_for(&self, wanted: &SplitDwarfLoad<Bytes>) -> Option<Arc<Dwarf>> {
        for (companion, package) in &self.packages {
            if let Ok(Some(dwarf)) = package.find_cu(wanted.dwo_id, &wanted.parent) {
                self.companions.borrow_mut().push(companion.clone());
                return Some(Arc::new(dwarf));
            }
        }
        let text = |bytes: &Bytes| Some(bytes.to_string_lossy().ok()?.into_owned());
        let folder = wanted.comp_dir.as_ref().and_then(text).unwrap_or_default();
        let name = wanted.path.as_ref().and_then(text)?;
        for path in self.finder.as_ref()?.split(&folder, &name) {
            let Some(bytes) = read(&path) else { continue };
            let Ok(file) = object::File::parse(&*bytes) else {
                continue;
            };
            let Some(mut dwarf) = sections(&file, SectionId::dwo_name) else {
                continue;
            };
            dwarf.make_dwo(&wanted.parent);
            if holds(&dwarf, wanted.dwo_id) {
                let below = relative(&Path::new(&folder).join(&name));
                let plain = relative(Path::new(&name));
                let better = Some(plain).filter(|plain| *plain != below);
                let companion = Companion {
                    path,
                    below,
                    better,
                };
                self.companions.borrow_mut().push(companion);
                return Some(Arc::new(dwarf));
            }
        }
        None
    }
}

/// Whether there is a split unit with this id.
fn holds(dwarf: &Dwarf, id: DwoId) -> bool {
    let mut units = dwarf.units();
    while let Ok(Some(header)) = units.next() {
        if dwarf.unit(header).is_ok_and(|unit| unit.dwo_id == Some(id)) {
            return true;
        }
    }
    false
}

fn package(path: &Path) -> Option<(Companion, DwarfPackage<Bytes>)> {
    let bytes = read(path)?;
    let file = object::File::parse(&*bytes).ok()?;
    let load = |id: SectionId| -> Result<Bytes, gimli::Error> {
        Ok(id
            .dwo_name()
            .map_or_else(empty, |name| section(&file, name)))
    };
    let package = DwarfPackage::load(load, empty()).ok()?;
    let companion = Companion {
        path: path.to_owned(),
        below: path.file_name()?.into(),
        better: None,
    };
    Some((companion, package))
}

fn sections(
    file: &object::File<'_>,
    name: impl Fn(SectionId) -> Option<&'static str>,
) -> Option<Dwarf> {
    let load = |id: SectionId| -> Result<Bytes, gimli::Error> {
        Ok(name(id).map_or_else(empty, |name| section(file, name)))
    };
    Dwarf::load(load).ok()
}

fn empty() -> Bytes {
    Bytes::new(Arc::from(&[][..]), LittleEndian)
}

/// A section; empty if there is none.
pub(crate) fn section(file: &object::File<'_>, name: &str) -> Bytes {
    match inflate::section(file, name) {
        Some(data) => Bytes::new(Arc::from(&*data), LittleEndian),
        None => empty(),
    }
}
