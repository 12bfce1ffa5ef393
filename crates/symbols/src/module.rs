//! One ELF file with its symbols, lines and unwind tables. Addresses are the file's own.

use std::sync::Arc;

use addr2line::{Context, LookupContinuation, LookupResult};
use gimli::{EndianArcSlice, LittleEndian, SectionId};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SymbolKind};

pub(crate) type Bytes = EndianArcSlice<LittleEndian>;

/// Inlined calls shown for one address, at most.
const MOST_INLINED: usize = 64;

/// What a symbol names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Code.
    Function,
    /// Data.
    Variable,
}

/// A name in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// As the file has it.
    pub name: String,
    /// What it names.
    pub kind: Kind,
    /// Address.
    pub address: u64,
    /// Bytes; 0 if the file does not say.
    pub size: u64,
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

/// One file.
pub struct Module {
    /// By address.
    symbols: Vec<Symbol>,
    /// Address and file offset of the loaded parts.
    segments: Vec<(u64, u64, u64)>,
    lines: Option<Context<Bytes>>,
    pub(crate) tables: Tables,
    build_id: Option<Vec<u8>>,
}

/// What unwinding needs.
pub(crate) struct Tables {
    pub(crate) eh_frame: Option<gimli::EhFrame<Bytes>>,
    pub(crate) debug_frame: Option<gimli::DebugFrame<Bytes>>,
    pub(crate) bases: gimli::BaseAddresses,
}

/// The build id of an ELF file.
#[must_use]
pub fn build_id(bytes: &[u8]) -> Option<Vec<u8>> {
    let file = object::File::parse(bytes).ok()?;
    let id = file.build_id().ok()??;
    (!id.is_empty()).then(|| id.to_vec())
}

impl Module {
    /// From the bytes of an ELF file; `None` if it is none.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let file = object::File::parse(bytes).ok()?;
        let segments = file.segments().map(|segment| {
            let (offset, size) = segment.file_range();
            (segment.address(), offset, size)
        });
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
        let mut eh_frame = section(&file, ".eh_frame").map(gimli::EhFrame::from);
        let mut debug_frame = section(&file, ".debug_frame").map(gimli::DebugFrame::from);
        if let Some(frames) = &mut eh_frame {
            frames.set_address_size(8);
        }
        if let Some(frames) = &mut debug_frame {
            frames.set_address_size(8);
        }
        Some(Self {
            symbols: symbols(&file),
            segments: segments.collect(),
            lines: lines(&file),
            tables: Tables {
                eh_frame,
                debug_frame,
                bases,
            },
            build_id: file.build_id().ok().flatten().map(<[u8]>::to_vec),
        })
    }

    /// Takes names and lines of separate debug information for the same build id.
    pub fn add_debug(&mut self, bytes: &[u8]) {
        let Ok(file) = object::File::parse(bytes) else {
            return;
        };
        self.symbols.extend(symbols(&file));
        sort(&mut self.symbols);
        if let Some(lines) = lines(&file) {
            self.lines = Some(lines);
        }
    }

    /// The build id, if it has one.
    #[must_use]
    pub fn build_id(&self) -> Option<&[u8]> {
        self.build_id.as_deref()
    }

    /// Whether there are lines in it.
    #[must_use]
    pub fn has_lines(&self) -> bool {
        self.lines.is_some()
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
        // Of several names for one place the longest-reaching one is the function's own.
        let best = here.max_by_key(|s| s.size)?;
        let inside = best.size == 0 || address - best.address < best.size;
        inside.then_some(best)
    }

    /// All symbols of a kind with this name: as the file has it, or demangled, with or without
    /// its parameters.
    pub fn symbols_named<'a>(
        &'a self,
        name: &'a str,
        kind: Kind,
    ) -> impl Iterator<Item = &'a Symbol> {
        self.symbols
            .iter()
            .filter(move |s| s.kind == kind && (s.name == name || is_called(&s.name, name)))
    }

    /// The source lines of an address: the innermost inlined function first.
    #[must_use]
    pub fn lines_at(&self, address: u64) -> Vec<Line> {
        let mut all = Vec::new();
        let Some(context) = &self.lines else {
            return all;
        };
        // The range of one address ends behind it.
        if address == u64::MAX {
            return all;
        }
        let mut lookup = context.find_frames(address);
        let frames = loop {
            match lookup {
                LookupResult::Output(frames) => break frames,
                // Debug information in yet another file, which nobody has looked for.
                LookupResult::Load { continuation, .. } => lookup = continuation.resume(None),
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
}

/// A name for people.
pub(crate) fn demangled(name: &str) -> String {
    addr2line::demangle_auto(name.into(), None).into_owned()
}

/// Whether a mangled name reads so.
fn is_called(mangled: &str, name: &str) -> bool {
    // Only these two beginnings are mangled names.
    if !mangled.starts_with("_Z") && !mangled.starts_with("_R") {
        return false;
    }
    let shown = demangled(mangled);
    let plain = shown.split('(').next().unwrap_or(&shown);
    // Rust's older names end with a hash.
    let without_hash = match plain.rsplit_once("::h") {
        Some((before, hash)) if hash.len() == 16 => before,
        _ => plain,
    };
    [shown.as_str(), plain, without_hash].contains(&name)
}

fn symbols(file: &object::File<'_>) -> Vec<Symbol> {
    let kind = |kind| match kind {
        SymbolKind::Text => Some(Kind::Function),
        SymbolKind::Data => Some(Kind::Variable),
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

pub(crate) fn section(file: &object::File<'_>, name: &str) -> Option<Bytes> {
    let data = file.section_by_name(name)?.uncompressed_data().ok()?;
    Some(Bytes::new(Arc::from(&*data), LittleEndian))
}

fn lines(file: &object::File<'_>) -> Option<Context<Bytes>> {
    Context::from_dwarf(dwarf(file)?).ok()
}

/// The debug information of a file, if it has any.
pub(crate) fn dwarf(file: &object::File<'_>) -> Option<gimli::Dwarf<Bytes>> {
    file.section_by_name(".debug_info")?;
    let load = |id: SectionId| -> Result<Bytes, gimli::Error> {
        let empty = || Bytes::new(Arc::from(&[][..]), LittleEndian);
        Ok(section(file, id.name()).unwrap_or_else(empty))
    };
    gimli::Dwarf::load(load).ok()
}
