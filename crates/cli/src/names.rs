//! Names and lines for addresses of a replay: the symbols crate over a replaying process.

use std::path::Path;

use relive_engine::Failure;
use relive_engine::timeline::{Registers, ReplayProcess, Timeline, Uninterrupted};
use relive_symbols::{Finder, Found, Map, Named, Passing, Space, SymbolType, Target};
use serde_json::{Value, json};

/// Folder in a trace for separate debug information, laid out as `/usr/lib/debug`.
pub const DEBUG: &str = "debug";

/// A replaying process as a target of the symbols crate.
pub struct ReplayedGuest<'a>(pub &'a mut ReplayProcess);

impl Target for ReplayedGuest<'_> {
    fn maps(&mut self) -> Vec<Map> {
        const EXECUTABLE: u32 = libc::PROT_EXEC as u32;
        // A process that has ended has no maps, and then nothing has a name.
        let maps = self.0.maps().unwrap_or_default();
        maps.into_iter()
            .map(|m| Map {
                start: m.start,
                end: m.end,
                offset: m.offset,
                executable: m.prot & EXECUTABLE != 0,
                name: m.name,
            })
            .collect()
    }

    fn read(&mut self, addr: u64, bytes: &mut [u8]) -> bool {
        match self.0.read(addr, bytes.len() as u64) {
            Ok(found) if found.len() == bytes.len() => {
                bytes.copy_from_slice(&found);
                true
            }
            _ => false,
        }
    }
}

/// Registers in the order of debug information.
pub fn registers(registers: &Registers) -> relive_symbols::Registers {
    relive_symbols::Registers::from_encoding(&registers.gpr, registers.rip)
}

/// Files of a trace, and debug information in it and on this machine.
pub fn finder(trace: &Path) -> Finder {
    let mut finder = Finder::of_this_machine();
    finder.add_debug_folder(&trace.join(DEBUG));
    finder.add_files(&trace.join("files"));
    finder
}

/// The modules at the timeline's position.
pub fn space(timeline: &mut Timeline) -> Space {
    let trace = timeline.trace().to_owned();
    space_of(timeline.guest(), &trace)
}

/// The modules of a process.
pub fn space_of(host: &mut ReplayProcess, trace: &Path) -> Space {
    Space::of(&mut ReplayedGuest(host), &finder(trace))
}

/// All registers that values are passed in.
pub fn passing(registers: &Registers) -> Passing {
    /// Where the legacy region of an XSAVE area has xmm0 (Intel SDM vol. 1, 13.4.1).
    const XMM: usize = 160;
    Passing {
        general: self::registers(registers),
        vector: std::array::from_fn(|i| registers.component(1, XMM + 16 * i)),
    }
}

/// The one function of this name in the program of this path, or in a library; `None` if only the
/// dynamic linker has it, which has copies of many.
///
/// # Errors
/// There are several.
pub fn of_program(space: &Space, program: &[u8], name: &str) -> Result<Option<Found>, Failure> {
    let mut found = space.find(name, SymbolType::Function);
    found.retain(|f| !is_linker(&f.module));
    prefer_own(&mut found, program);
    match found.len() {
        0 | 1 => Ok(found.pop()),
        _ => Err(several("function", name, &found)),
    }
}

/// Keeps only the program's own, if any: the C++ library alone has dozens of each usual name.
fn prefer_own(found: &mut Vec<Found>, program: &[u8]) {
    let is_own = |f: &Found| f.module.as_bytes() == program;
    if found.iter().any(is_own) {
        found.retain(is_own);
    }
}

fn is_linker(module: &str) -> bool {
    let name = module.rsplit('/').next().unwrap_or(module);
    name.starts_with("ld-linux") || name.starts_with("ld-musl") || name.starts_with("ld-2.")
}

fn several(what: &str, name: &str, found: &[Found]) -> Failure {
    const LISTED: usize = 20;
    let list: Vec<String> = found
        .iter()
        .take(LISTED)
        .map(|f| format!("{:#x} ({} in {})", f.address, f.name, f.module))
        .collect();
    Failure::setup(format!(
        "several {what}s are called {name}, give an address: {}",
        list.join(", ")
    ))
}

/// The function of this name: at the end of the process, when all libraries are there, or at
/// its beginning. The timeline stays where it is.
///
/// # Errors
/// There is none, or there are several.
pub fn find(timeline: &mut Timeline, name: &str) -> Result<Found, Failure> {
    let here = timeline.status().point.event;
    let first = (space(timeline), timeline.guest().program()?.0);
    timeline.goto_end(&mut Uninterrupted)?;
    let last = (space(timeline), timeline.guest().program()?.0);
    timeline.goto_event(here, &mut Uninterrupted)?;
    for (space, program) in [&last, &first] {
        if let Some(found) = of_program(space, program, name)? {
            return Ok(found);
        }
    }
    let (last, program) = last;
    let mut found = last.find(name, SymbolType::Function);
    if found.is_empty() {
        found = last.find_ending(name, SymbolType::Function);
        prefer_own(&mut found, &program);
    }
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => {
            let near = last.like(name, SymbolType::Function);
            let hint = match &near[..] {
                [] => "a name is needed as the linker has it, or an address".to_owned(),
                near => format!("names like it: {}", near.join(", ")),
            };
            Err(Failure::setup(format!(
                "there is no function {name} in the symbols of the program and of the libraries that it has at its end, as there is none of one that is inlined wherever it is called; {hint}"
            )))
        }
        _ => Err(several("function", name, &found)),
    }
}

/// `function+12 at file.c:3`, as far as known.
pub fn text(named: &Named) -> String {
    let name = match (&named.symbol, named.lines.last()) {
        (Some((name, 0)), _) => name.clone(),
        (Some((name, offset)), _) => format!("{name}+{offset:#x}"),
        (None, Some(line)) => line.function.clone().unwrap_or_default(),
        (None, None) => String::new(),
    };
    let line = named.lines.first().and_then(line_text);
    let module = named.module.as_deref().unwrap_or("");
    match (name.is_empty(), line) {
        (false, Some(line)) => format!("{name} at {line}"),
        (false, None) => format!("{name} in {module}"),
        (true, Some(line)) => line,
        (true, None) if module.is_empty() => "??".to_owned(),
        (true, None) => format!("?? in {module}"),
    }
}

/// `file.c:3`.
pub fn line_text(line: &relive_symbols::Line) -> Option<String> {
    let file = line.file.as_ref()?;
    Some(match line.line {
        Some(n) => format!("{file}:{n}"),
        None => file.clone(),
    })
}

/// The same as JSON.
pub fn object(named: &Named) -> Value {
    let lines: Vec<Value> = named
        .lines
        .iter()
        .map(|l| json!({ "function": l.function, "file": l.file, "line": l.line }))
        .collect();
    json!({
        "module": named.module,
        "file_address": named.file_address,
        "symbol": named.symbol.as_ref().map(|(name, _)| name),
        "offset": named.symbol.as_ref().map(|(_, offset)| offset),
        "lines": lines,
    })
}
