//! Variables by name: those of a frame, and those with a permanent place.

#![expect(non_upper_case_globals, reason = "DWARF's constants have its names")]

use std::collections::HashMap;
use std::rc::Rc;

use gimli::constants::*;
use gimli::{AttributeValue, Operation, RangeIter};

use crate::demangle::{demangled, plain};
use crate::dwarf::Bytes;
use crate::evaluate::location;
use crate::units::{Die, Unit, Units};

/// Scopes in scopes, at most.
const MOST_DEPTH: usize = 256;

/// A variable.
pub(crate) struct VariableDie {
    pub(crate) die: Die,
    /// Its name with the namespaces, classes and functions that it is in.
    pub(crate) path: String,
    /// It exists permanently, not only in a frame.
    pub(crate) lasting: bool,
}

/// Reports all variables of a unit, with their names.
pub(crate) fn variables(units: &Units, unit: &Rc<Unit>, tell: &mut dyn FnMut(VariableDie)) {
    let mut scopes: Vec<(isize, String)> = Vec::new();
    // Names of declarations, for the definitions that come later.
    let mut declared: HashMap<usize, String> = HashMap::new();
    let mut cursor = unit.unit.entries();
    while let Ok(Some(entry)) = cursor.next_dfs() {
        let depth = entry.depth();
        while scopes.last().is_some_and(|(d, _)| *d >= depth) {
            scopes.pop();
        }
        let tag = entry.tag();
        let die = Die {
            unit: Rc::clone(unit),
            at: entry.offset(),
        };
        match tag {
            DW_TAG_namespace
            | DW_TAG_structure_type
            | DW_TAG_class_type
            | DW_TAG_union_type
            | DW_TAG_subprogram
            | DW_TAG_module => {
                if scopes.len() < MOST_DEPTH
                    && let Some(name) = scope(units, &die, tag)
                {
                    scopes.push((depth, name));
                }
            }
            DW_TAG_variable | DW_TAG_formal_parameter | DW_TAG_member => {
                let only_declared = entry.has_attr(DW_AT_declaration);
                let member = tag == DW_TAG_member;
                if member && !only_declared && !entry.has_attr(DW_AT_external) {
                    continue;
                }
                let Some(own) = units.name(&die) else {
                    continue;
                };
                let within = scopes.iter().map(|(_, name)| name.as_str());
                let path: Vec<&str> = within.chain([own.as_str()]).collect();
                let mut path = path.join("::");
                if only_declared {
                    declared.insert(die.at.0, path);
                    continue;
                }
                if let Some(AttributeValue::UnitRef(to)) = entry.attr_value(DW_AT_specification) {
                    let known = declared.get(&to.0).cloned();
                    path = known.or_else(|| linked(units, &die)).unwrap_or(path);
                } else if entry.has_attr(DW_AT_specification) {
                    path = linked(units, &die).unwrap_or(path);
                }
                let lasting = is_lasting(&die);
                tell(VariableDie { die, path, lasting });
            }
            _ => {}
        }
    }
}

/// The part that a scope adds to the names in it.
fn scope(units: &Units, die: &Die, tag: gimli::DwTag) -> Option<String> {
    let name = units.name(die);
    match tag {
        DW_TAG_namespace => Some(name.unwrap_or_else(|| "(anonymous namespace)".to_owned())),
        // A method defined outside of its class.
        DW_TAG_subprogram if die.attr(DW_AT_specification).is_some() => linked(units, die).or(name),
        _ => name,
    }
}

/// The linkage name, without parameters.
fn linked(units: &Units, die: &Die) -> Option<String> {
    let (unit, name) = units.attribute(die, DW_AT_linkage_name)?;
    Some(plain(&demangled(&unit.text(name)?)).to_owned())
}

/// Whether a variable has a permanent place (in its thread), or is a constant.
fn is_lasting(die: &Die) -> bool {
    let moving = |operation| {
        matches!(
            operation,
            Operation::FrameOffset { .. }
                | Operation::RegisterOffset { .. }
                | Operation::Register { .. }
                | Operation::CallFrameCFA
                | Operation::EntryValue { .. }
        )
    };
    match location(die) {
        Some(AttributeValue::Exprloc(expression)) => {
            let mut operations = expression.operations(die.unit.unit.encoding());
            let mut any = false;
            while let Ok(Some(operation)) = operations.next() {
                any = true;
                if moving(operation) {
                    return false;
                }
            }
            any
        }
        Some(_) => false,
        None => die.attr(DW_AT_const_value).is_some(),
    }
}

/// The scopes of a unit's function around an address of its code, the function itself first:
/// its blocks, and the functions inlined in it.
pub(crate) fn scopes(unit: &Rc<Unit>, address: u64) -> Vec<Die> {
    let mut cursor = unit.unit.entries();
    let mut found: Vec<Die> = Vec::new();
    while let Ok(Some(entry)) = cursor.next_dfs() {
        if entry.tag() == DW_TAG_subprogram && holds(unit, entry, address) {
            found.push(Die {
                unit: Rc::clone(unit),
                at: entry.offset(),
            });
            break;
        }
    }
    while let Some(outer) = found.last() {
        let inner = outer.children().into_iter().find(|(die, tag)| {
            matches!(
                *tag,
                DW_TAG_lexical_block
                    | DW_TAG_inlined_subroutine
                    | DW_TAG_try_block
                    | DW_TAG_catch_block
            ) && die
                .entry()
                .is_some_and(|entry| holds(unit, &entry, address))
        });
        match inner {
            Some((die, _)) if found.len() < MOST_DEPTH => found.push(die),
            _ => break,
        }
    }
    found
}

fn holds(unit: &Unit, entry: &gimli::DebuggingInformationEntry<Bytes>, address: u64) -> bool {
    let Ok(mut ranges) = unit.dwarf.die_ranges(&unit.unit, entry) else {
        return false;
    };
    let next = |ranges: &mut RangeIter<Bytes>| ranges.next().ok().flatten();
    while let Some(range) = next(&mut ranges) {
        if (range.begin..range.end).contains(&address) {
            return true;
        }
    }
    false
}

/// Whether a name matches a variable's whole name: all of it, or its end.
pub(crate) fn is_meant(path: &str, name: &str) -> bool {
    let ends = |path: &str| {
        let before = path.strip_suffix(name);
        // Go's packages end with a point.
        before.is_some_and(|b| b.is_empty() || b.ends_with("::") || b.ends_with('.'))
    };
    ends(path) || path.contains("(anonymous") && ends(&path.replace("(anonymous namespace)::", ""))
}

/// Whether a unit's source is the named file, by the end of its path.
pub(crate) fn is_file(source: &str, file: &str) -> bool {
    let before = source.strip_suffix(file);
    before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// The existing names most like an unknown one.
pub(crate) fn near<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> Vec<String> {
    const SHOWN: usize = 3;
    const ALIKE: f64 = 0.8;
    let last = |name: &str, at: &str| name.rsplit(at).next().unwrap_or(name).to_lowercase();
    let wanted = [last(name, "::"), last(name, ".")];
    let alike = |other: &str| {
        let colons = strsim::jaro_winkler(&wanted[0], &last(other, "::"));
        colons.max(strsim::jaro_winkler(&wanted[1], &last(other, ".")))
    };
    let mut found: Vec<(f64, &str)> = all
        .map(|other| (alike(other), other))
        .filter(|(alike, _)| *alike >= ALIKE)
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    found.dedup_by(|a, b| a.1 == b.1);
    let best = found.into_iter().take(SHOWN);
    best.map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_is_enough() {
        for (path, name, meant) in [
            ("ns::Class::member", "member", true),
            ("ns::Class::member", "Class::member", true),
            ("ns::Class::member", "ember", false),
            ("a::(anonymous namespace)::x", "a::x", true),
            ("total", "total", true),
            ("main.total", "total", true),
        ] {
            assert_eq!(is_meant(path, name), meant, "{path} {name}");
        }
        assert!(is_file("/a/bank.c", "bank.c") && !is_file("/a/bank.c", "ank.c"));
        let all = ["total", "totals", "other"];
        assert_eq!(near("totl", all.into_iter()), ["total", "totals"]);
    }
}
