//! One ELF file with its symbols, lines and unwind tables. Addresses are the file's own.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};

use crate::demangle::{demangled, is_called};
use crate::dwarf::{Bytes, Companion, Debug, Line, section};
use crate::find::{Finder, below_build_id, read, relative};
use crate::inflate;
use crate::short;
use crate::tls::Block;
use crate::units::Units;

/// Parts of names that mark functions which the compiler has cloned or split.
pub(crate) const COPIES: [&str; 4] = [".isra.", ".constprop.", ".part.", ".cold"];

/// The kind of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolType {
    /// Code.
    Function,
    /// Data.
    Variable,
}

/// A name in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// The name in the file.
    pub name: String,
    /// Its kind.
    pub kind: SymbolType,
    /// Address.
    pub address: u64,
    /// Bytes; 0 if the file does not say.
    pub size: u64,
}

/// One file, with its symbols and debug information.
pub struct Module {
    /// By address.
    symbols: Vec<Symbol>,
    /// Address and file offset of the loaded parts.
    segments: Vec<(u64, u64, u64)>,
    pub(crate) debug: Option<Debug>,
    /// Its entries, read at the first use.
    units: OnceCell<Rc<Units>>,
    pub(crate) tls: Option<Block>,
    pub(crate) tables: Tables,
    build_id: Option<Vec<u8>>,
    /// The file with its debug information, if separate.
    separate: Option<Companion>,
}

/// The data for unwinding.
pub(crate) struct Tables {
    pub(crate) eh_frame: Option<gimli::EhFrame<Bytes>>,
    pub(crate) debug_frame: Option<gimli::DebugFrame<Bytes>>,
    pub(crate) bases: gimli::BaseAddresses,
    /// The code is Go's, which has a calling convention of its own.
    pub(crate) go: bool,
}

impl Module {
    /// Reads the bytes of an ELF file alone; `None` if they are not one.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        Self::with(bytes, Path::new(""), Path::new(""), None)
    }

    /// Reads the bytes of an ELF file that was called `name` at run time and lies at `path` now,
    /// with all files that the finder has for it; `None` if they are not one.
    #[must_use]
    pub fn load(bytes: &[u8], path: &Path, name: &Path, finder: &Arc<Finder>) -> Option<Self> {
        let mut module = Self::with(bytes, path, name, Some(finder))?;
        let file = object::File::parse(bytes).ok()?;
        module.separate = separate(&file, name, finder);
        let of = module.separate.as_ref().map(|s| s.path.clone());
        if let Some((of, bytes)) = of.and_then(|of| Some((of.clone(), read(&of)?))) {
            module.add_debug(&bytes, &of, name, Some(finder));
        }
        if let Some(mini) = inflate::mini(&file) {
            module.add_debug(&mini, Path::new(""), Path::new(""), None);
        }
        Some(module)
    }

    fn with(bytes: &[u8], of: &Path, name: &Path, finder: Option<&Arc<Finder>>) -> Option<Self> {
        let file = object::File::parse(bytes).ok()?;
        let segments = file.segments().map(|segment| {
            let (offset, size) = segment.file_range();
            (segment.address(), offset, size)
        });
        Some(Self {
            symbols: symbols(&file),
            segments: segments.collect(),
            debug: Debug::of(&file, of, name, finder),
            units: OnceCell::new(),
            tls: Block::of(&file),
            tables: Tables::of(&file),
            build_id: file.build_id().ok().flatten().map(<[u8]>::to_vec),
            separate: None,
        })
    }

    /// Takes names, lines and tables of separate debug information.
    fn add_debug(&mut self, bytes: &[u8], of: &Path, name: &Path, finder: Option<&Arc<Finder>>) {
        let Ok(file) = object::File::parse(bytes) else {
            return;
        };
        self.symbols.extend(symbols(&file));
        sort(&mut self.symbols);
        if let Some(debug) = Debug::of(&file, of, name, finder) {
            self.debug = Some(debug);
        }
        // A stripped file keeps `.eh_frame`; stripping removes the other one.
        if self.tables.debug_frame.is_none() {
            self.tables.debug_frame = Tables::of(&file).debug_frame;
        }
    }

    /// The build id, if it has one.
    #[must_use]
    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// Whether it has line information.
    #[must_use]
    pub fn has_lines(&self) -> bool {
        self.debug.is_some()
    }

    /// The other files with its debug information.
    #[must_use]
    pub fn companions(&self) -> Vec<Companion> {
        let mut all: Vec<Companion> = self.separate.clone().into_iter().collect();
        if let Some(debug) = &self.debug {
            all.append(&mut debug.companions());
        }
        all
    }

    /// The file's own address of the byte at a file offset.
    pub(crate) fn address_of(&self, offset: u64) -> Option<u64> {
        let holds = |&&(_, from, size): &&(u64, u64, u64)| {
            // A map begins at a page's boundary, a segment need not.
            let page = from & !0xfff;
            offset >= page && offset - page < size.saturating_add(from - page)
        };
        let &(address, from, _) = self.segments.iter().find(holds)?;
        Some(address.wrapping_add(offset.wrapping_sub(from)))
    }

    /// The symbol that an address belongs to.
    #[must_use]
    pub fn symbol_at(&self, address: u64) -> Option<&Symbol> {
        let behind = self.symbols.partition_point(|s| s.address <= address);
        let first = self.symbols[..behind].last()?.address;
        let here = self.symbols[..behind]
            .iter()
            .rev()
            .take_while(|s| s.address == first);
        // Of several names of one place the one with the largest size is the function's own.
        let best = here.max_by_key(|s| s.size)?;
        let inside = best.size == 0 || address - best.address < best.size;
        inside.then_some(best)
    }

    /// All symbols of a kind with this name: as in the file, or demangled, with or without its
    /// parameters. If a function exists only as a compiler's clone, that clone.
    #[must_use]
    pub fn symbols_named(&self, name: &str, kind: SymbolType) -> Vec<&Symbol> {
        let of_kind = || self.symbols.iter().filter(|s| s.kind == kind);
        let is_copy = |s: &Symbol| COPIES.iter().any(|mark| s.name.contains(mark));
        let all: Vec<&Symbol> = of_kind()
            .filter(|s| s.name == name || is_called(&s.name, name))
            .filter(|s| s.name == name || !is_copy(s))
            .collect();
        if !all.is_empty() || kind != SymbolType::Function {
            return all;
        }
        of_kind()
            .filter(|s| is_copy(s) && !s.name.contains(".cold"))
            .filter(|s| {
                let own = s.name.split('.').next().unwrap_or(&s.name);
                own == name || is_called(own, name)
            })
            .collect()
    }

    /// All symbols of a kind that a shorter name matches.
    #[must_use]
    pub(crate) fn symbols_ending(&self, name: &str, kind: SymbolType) -> Vec<&Symbol> {
        let is_go = self.symbols.iter().any(|s| s.name == "runtime.main");
        let word = short::word(name);
        let all = self.symbols.iter().filter(|s| s.kind == kind);
        all.filter(|s| !COPIES.iter().any(|mark| s.name.contains(mark)))
            .filter(
                |s| match s.name.starts_with("_Z") || s.name.starts_with("_R") {
                    true => s.name.contains(word) && short::is_meant(&demangled(&s.name), name),
                    false => is_go && short::is_meant_go(&s.name, name),
                },
            )
            .collect()
    }

    /// The names of all symbols of a kind.
    pub(crate) fn names(&self, kind: SymbolType) -> impl Iterator<Item = &str> {
        let all = self.symbols.iter().filter(move |s| s.kind == kind);
        all.map(|s| s.name.as_str())
    }

    /// The entries of its debug information, if there is any.
    pub(crate) fn units(&self) -> Option<Rc<Units>> {
        let debug = self.debug.as_ref()?;
        let units = self.units.get_or_init(|| Rc::new(Units::of(debug)));
        Some(Rc::clone(units))
    }

    /// The source lines of an address: the innermost inlined function first.
    #[must_use]
    pub fn lines_at(&self, address: u64) -> Vec<Line> {
        let debug = self.debug.as_ref();
        debug.map_or_else(Vec::new, |debug| debug.lines_at(address))
    }
}

impl Tables {
    fn of(file: &object::File<'_>) -> Self {
        let mut bases = gimli::BaseAddresses::default();
        let address = |name| Some(file.section_by_name(name)?.address());
        if let Some(at) = address(".eh_frame") {
            bases = bases.set_eh_frame(at);
        }
        if let Some(at) = address(".text") {
            bases = bases.set_text(at);
        }
        if let Some(at) = address(".got") {
            bases = bases.set_got(at);
        }
        let found = |name| {
            let there = inflate::find(file, name).is_some();
            there.then(|| section(file, name))
        };
        let mut eh_frame = found(".eh_frame").map(gimli::EhFrame::from);
        let mut debug_frame = found(".debug_frame").map(gimli::DebugFrame::from);
        if let Some(frames) = &mut eh_frame {
            frames.set_address_size(8);
        }
        if let Some(frames) = &mut debug_frame {
            frames.set_address_size(8);
        }
        Self {
            eh_frame,
            debug_frame,
            bases,
            go: file.section_by_name(".gopclntab").is_some(),
        }
    }
}

/// The separate file with the debug information of a file: by build id, or by its debug link.
fn separate(file: &object::File<'_>, name: &Path, finder: &Finder) -> Option<Companion> {
    let id = file.build_id().ok().flatten();
    if let Some((id, path)) = id.and_then(|id| Some((id, finder.debug_file(id)?))) {
        let below = PathBuf::from(below_build_id(id)?);
        return Some(Companion {
            path,
            below,
            better: None,
        });
    }
    let (link, checksum) = file.gnu_debuglink().ok()??;
    let link = String::from_utf8_lossy(link);
    let path = finder.linked(name, &link, checksum)?;
    // By build id where there is one: that needs no path.
    let other = id.and_then(below_build_id).map(PathBuf::from);
    let folder = relative(name.parent().unwrap_or(Path::new("")));
    let below = other.unwrap_or_else(|| folder.join(&*link));
    Some(Companion {
        path,
        below,
        better: None,
    })
}

fn symbols(file: &object::File<'_>) -> Vec<Symbol> {
    let kind = |kind| match kind {
        SymbolKind::Text => Some(SymbolType::Function),
        SymbolKind::Data => Some(SymbolType::Variable),
        _ => None,
    };
    let mut all: Vec<Symbol> = file
        .symbols()
        .chain(file.dynamic_symbols())
        .filter(|s| s.is_definition())
        .filter_map(|s| {
            Some(Symbol {
                name: s.name().ok().filter(|name| !name.is_empty())?.to_owned(),
                kind: kind(s.kind())?,
                address: s.address(),
                size: s.size(),
            })
        })
        .collect();
    sort(&mut all);
    all
}

fn sort(all: &mut Vec<Symbol>) {
    all.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
    all.dedup();
}
