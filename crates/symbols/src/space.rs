//! The modules of one target, and the names of its addresses.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use crate::demangle::{demangled, plain};
use crate::dwarf::Line;
use crate::evaluate::Where;
use crate::find::{Finder, HEAD, read};
use crate::globals::Globals;
use crate::module::{Module, Symbol, SymbolType};
use crate::names::near;
use crate::placed::Placed;
use crate::target::{Map, Target};
use crate::types::Type;
use crate::unknown::Unknown;
use crate::value::{Passing, Shower};

/// The name of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named {
    /// The module mapped there.
    pub module: Option<String>,
    /// The address in the module's file.
    pub file_address: Option<u64>,
    /// Demangled name of the function or variable, and the distance from its beginning.
    pub symbol: Option<(String, u64)>,
    /// Lines, the innermost inlined function first; empty without debug information.
    pub lines: Vec<Line>,
}

/// A symbol that was found by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Demangled name.
    pub name: String,
    /// Path of the module.
    pub module: String,
    /// Address in the target.
    pub address: u64,
    /// Bytes; 0 if unknown.
    pub size: u64,
}

/// All modules of a target at one moment.
pub struct Space {
    modules: Vec<Placed>,
    maps: Vec<Map>,
    /// Variables with a permanent place, by module, of those that were asked for.
    pub(crate) globals: RefCell<HashMap<usize, Rc<Globals>>>,
}

impl Space {
    /// Finds the modules of a target.
    pub fn of(target: &mut dyn Target, finder: &Finder) -> Self {
        let finder = Arc::new(finder.clone());
        let maps = target.maps();
        let mut modules: Vec<Placed> = Vec::new();
        for (i, map) in maps.iter().enumerate() {
            if map.offset != 0 || map.name.is_empty() || map.name.starts_with('[') {
                continue;
            }
            let mut head = vec![0; HEAD];
            if !target.read(map.start, &mut head) {
                continue;
            }
            // Its other parts follow, up to the next file's beginning.
            let parts: Vec<Map> = maps[i..]
                .iter()
                .enumerate()
                .take_while(|(n, m)| *n == 0 || m.offset != 0 || m.name != map.name)
                .filter(|(_, m)| m.name == map.name)
                .map(|(_, m)| m.clone())
                .collect();
            let Some(module) = load(target, &head, &parts, &finder) else {
                continue;
            };
            let Some(first) = module.address_of(0) else {
                continue;
            };
            modules.push(Placed {
                module,
                bias: map.start.wrapping_sub(first),
                path: map.name.clone(),
                ranges: parts.iter().map(|m| (m.start, m.end)).collect(),
            });
        }
        Self::drop_files(&mut modules, &maps);
        Self {
            modules,
            maps,
            globals: RefCell::default(),
        }
    }

    /// Drops files that the program has mapped only to read them, as Rust's programs do with their
    /// own before a backtrace: the same file is mapped with code elsewhere.
    fn drop_files(modules: &mut Vec<Placed>, maps: &[Map]) {
        let runs = |placed: &Placed| {
            maps.iter()
                .filter(|map| map.executable)
                .any(|map| placed.ranges.contains(&(map.start, map.end)))
        };
        let running: HashSet<String> = modules
            .iter()
            .filter(|placed| runs(placed))
            .map(|placed| placed.path.clone())
            .collect();
        modules.retain(|placed| runs(placed) || !running.contains(&placed.path));
    }

    /// All modules.
    pub(crate) fn modules(&self) -> &[Placed] {
        &self.modules
    }

    /// The module at an address, and its index.
    pub(crate) fn place_at(&self, address: u64) -> Option<(usize, &Placed)> {
        let inside = |&(start, end): &(u64, u64)| (start..end).contains(&address);
        let mut all = self.modules.iter().enumerate();
        all.find(|(_, m)| m.ranges.iter().any(inside))
    }

    pub(crate) fn module_at(&self, address: u64) -> Option<&Placed> {
        Some(self.place_at(address)?.1)
    }

    /// A value as text; `None` if it is not known.
    #[must_use]
    pub fn show(
        &self,
        target: &mut dyn Target,
        of: &Type,
        place: &Where,
        from: &Passing,
    ) -> Option<String> {
        let function = |at| match self.name(at).symbol? {
            (name, 0) => Some(name),
            (name, offset) => Some(format!("{name}+{offset:#x}")),
        };
        let function: &dyn Fn(u64) -> Option<String> = &function;
        Shower { target, function }.show(of, place, from)
    }

    /// Whether an address can be code.
    #[must_use]
    pub fn is_code(&self, address: u64) -> bool {
        self.maps
            .iter()
            .any(|m| m.executable && (m.start..m.end).contains(&address))
    }

    /// The name of an address.
    #[must_use]
    pub fn name(&self, address: u64) -> Named {
        let Some(placed) = self.module_at(address) else {
            let map = self
                .maps
                .iter()
                .find(|m| (m.start..m.end).contains(&address) && !m.name.is_empty());
            return Named {
                module: map.map(|m| m.name.clone()),
                ..Named::default()
            };
        };
        let own = address.wrapping_sub(placed.bias);
        let symbol = placed.module.symbol_at(own);
        Named {
            module: Some(placed.path.clone()),
            file_address: Some(own),
            symbol: symbol.map(|s| (demangled(&s.name), own - s.address)),
            lines: placed.module.lines_at(own),
        }
    }

    /// Existing names of a kind most like an unknown one.
    #[must_use]
    pub fn like(&self, name: &str, kind: SymbolType) -> Vec<String> {
        let all = self.modules.iter().flat_map(|m| m.module.names(kind));
        let all: Vec<String> = all.map(|n| plain(&demangled(n)).to_owned()).collect();
        near(name, all.iter().map(String::as_str))
    }

    /// The address of the variable at an offset in a module's thread-local block, for the thread
    /// with this pointer. `bias` identifies the module: its addresses less those in its file.
    ///
    /// # Errors
    /// The reason why it is not known.
    pub fn thread_local(
        &self,
        target: &mut dyn Target,
        bias: u64,
        pointer: u64,
        offset: u64,
    ) -> Result<u64, Unknown> {
        let has = |placed: &&Placed| placed.bias == bias && placed.module.tls.is_some();
        let placed = self.modules.iter().find(has);
        let placed = placed.ok_or("there is no module with such variables")?;
        placed.thread_local(target, Some(pointer), offset)
    }

    /// All symbols of a kind with this name.
    #[must_use]
    pub fn find(&self, name: &str, kind: SymbolType) -> Vec<Found> {
        self.found(&|module| module.symbols_named(name, kind))
    }

    /// All symbols of a kind that a shorter name matches: `sell` for `shop::sell`.
    #[must_use]
    pub fn find_ending(&self, name: &str, kind: SymbolType) -> Vec<Found> {
        self.found(&|module| module.symbols_ending(name, kind))
    }

    fn found(&self, named: &dyn Fn(&Module) -> Vec<&Symbol>) -> Vec<Found> {
        // One place may have the name several times, and twice in one file's two tables.
        let mut found: HashMap<u64, Found> = HashMap::new();
        for placed in &self.modules {
            for symbol in named(&placed.module) {
                let address = symbol.address.wrapping_add(placed.bias);
                found.entry(address).or_insert_with(|| Found {
                    name: demangled(&symbol.name),
                    module: placed.path.clone(),
                    address,
                    size: symbol.size,
                });
            }
        }
        let mut found: Vec<Found> = found.into_values().collect();
        found.sort_by_key(|f| f.address);
        found
    }
}

/// The file that a module's maps show, with its debug information.
fn load(
    target: &mut dyn Target,
    head: &[u8],
    maps: &[Map],
    finder: &Arc<Finder>,
) -> Option<Module> {
    let name = &maps.first()?.name;
    let mut files = finder.files(head, name);
    if files.len() > 1 {
        // Builds without an id may begin alike; only their code tells them apart.
        files.retain(|path| read(path).is_some_and(|bytes| shows(target, maps, &bytes)));
    }
    let [path] = &files[..] else { return None };
    Module::load(&read(path)?, path, Path::new(name), finder)
}

/// Whether executable maps show these bytes of a file.
fn shows(target: &mut dyn Target, maps: &[Map], bytes: &[u8]) -> bool {
    maps.iter().filter(|map| map.executable).all(|map| {
        let mut found = vec![0; HEAD];
        let pages = (map.start..map.end).step_by(HEAD);
        let offsets = (map.offset..).step_by(HEAD);
        pages.zip(offsets).all(|(at, offset)| {
            let rest = bytes.get(offset as usize..).unwrap_or(&[]);
            let part = &rest[..rest.len().min(HEAD)];
            target.read(at, &mut found) && found.starts_with(part)
        })
    })
}
