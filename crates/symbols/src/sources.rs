//! The source files that debug information names.

use std::collections::BTreeSet;

use gimli::Reader;

use crate::dwarf::{Bytes, Dwarf};
use crate::module::Module;

/// Limit on the listed source files.
const MOST: usize = 200_000;

/// Absolute paths of the sources that a module's debug information names, as the compiler
/// wrote them.
#[must_use]
pub fn sources(module: &Module) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let Some(debug) = &module.debug else {
        return all;
    };
    let mut units = debug.dwarf.units();
    while let Ok(Some(header)) = units.next() {
        // The line table of a split unit stays with its skeleton.
        if let Ok(unit) = debug.dwarf.unit(header) {
            of_unit(&debug.dwarf, &unit, &mut all);
        }
    }
    all
}

fn of_unit(dwarf: &Dwarf, unit: &gimli::Unit<Bytes>, all: &mut BTreeSet<String>) {
    let Some(program) = &unit.line_program else {
        return;
    };
    let text = |bytes: Bytes| Some(bytes.to_string_lossy().ok()?.into_owned());
    let attribute = |value| text(dwarf.attr_string(unit, value).ok()?);
    let folder = unit.comp_dir.clone().and_then(text).unwrap_or_default();
    let header = program.header();
    for file in header.file_names() {
        if all.len() >= MOST {
            return;
        }
        let Some(name) = attribute(file.path_name()) else {
            continue;
        };
        let within = file.directory(header).and_then(attribute);
        let path = join(&folder, &join(&within.unwrap_or_default(), &name));
        if path.starts_with('/') {
            all.insert(path);
        }
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() || name.starts_with('/') {
        name.to_owned()
    } else {
        format!("{folder}/{name}")
    }
}
