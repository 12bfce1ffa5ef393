//! Names and lines for what a replay shows: the symbols crate over a replaying process.

use std::path::Path;

use relive_engine::Failure;
use relive_engine::timeline::{Host, Patient, Registers, Timeline};
use relive_symbols::{Finder, Found, Kind, Map, Named, Space, Target};
use serde_json::{Value, json};

/// Folder in a trace for separate debug information, laid out as `/usr/lib/debug`.
pub const DEBUG: &str = "debug";

/// A replaying process as the symbols crate wants it.
pub struct Guest<'a>(pub &'a mut Host);

impl Target for Guest<'_> {
    fn maps(&mut self) -> Vec<Map> {
        const EXECUTABLE: u32 = libc::PROT_EXEC as u32;
        // A process that is gone has no maps, and then nothing has a name.
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

/// The modules where a timeline stands.
pub fn space(timeline: &mut Timeline) -> Space {
    let finder = finder(timeline.trace());
    Space::of(&mut Guest(timeline.guest()), &finder)
}

/// The one thing of this name: where the timeline stands, or, if it is of a library that is not
/// there yet, at the end of the process. The timeline stays where it is.
///
/// # Errors
/// There is none, or there are several.
pub fn find(timeline: &mut Timeline, name: &str, kind: Kind) -> Result<Found, Failure> {
    let mut found = space(timeline).find(name, kind);
    if found.is_empty() {
        let here = timeline.status().point.event;
        timeline.goto_end(&mut Patient)?;
        found = space(timeline).find(name, kind);
        timeline.goto_event(here, &mut Patient)?;
    }
    let what = match kind {
        Kind::Function => "function",
        Kind::Variable => "variable",
    };
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => {
            let near = space(timeline).like(name, kind);
            let hint = match &near[..] {
                [] => "a name is needed as the linker has it, or an address".to_owned(),
                near => format!("names like it: {}", near.join(", ")),
            };
            Err(Failure::setup(format!(
                "there is no {what} {name} in the program's symbols; {hint}"
            )))
        }
        several => {
            let list: Vec<String> = several
                .iter()
                .map(|f| format!("{:#x} ({} in {})", f.address, f.name, f.module))
                .collect();
            Err(Failure::setup(format!(
                "several {what}s are called {name}, give an address: {}",
                list.join(", ")
            )))
        }
    }
}

/// `function+12 at file.c:3`, as much of it as is known.
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

/// The same for programs.
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
