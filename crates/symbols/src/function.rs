//! A function with its parameters and its result, for showing calls of it.

#![expect(non_upper_case_globals, reason = "DWARF's constants have its names")]

use std::rc::Rc;

use gimli::constants::*;
use gimli::{AttributeValue, DwAt};

use crate::evaluate::{Evaluator, View, Where, location};
use crate::module::COPIES;
use crate::names;
use crate::passing::{ArgumentLocation, Assigner, Convention, results};
use crate::placed::Placed;
use crate::space::Space;
use crate::target::Target;
use crate::types::{Shape, Type};
use crate::units::{Die, Unit, Units};
use crate::value::Passing;

/// Parameters that are shown.
const MOST_PARAMETERS: usize = 64;
/// A function.
pub struct Function {
    placed: usize,
    address: u64,
    parameters: Vec<Parameter>,
    /// More arguments may follow.
    pub variadic: bool,
    results: Vec<Parameter>,
}

struct Parameter {
    name: Option<String>,
    of: Type,
    slot: ArgumentLocation,
    /// The entry with the compiler's location.
    said: Option<Die>,
}

/// A parameter or result with its value in one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name; a result has none.
    pub name: Option<String>,
    /// Its type.
    pub of: String,
    /// Its value as text, `None` if that is not known.
    pub value: Option<String>,
}

impl Space {
    /// The function that begins at an address, if debug information describes it.
    #[must_use]
    pub fn function(&self, address: u64) -> Option<Function> {
        let (index, placed) = self.place_at(address)?;
        let units = placed.module.units()?;
        let own = address.wrapping_sub(placed.bias);
        let scopes = units.at(own).map(|unit| names::scopes(unit, own));
        let die = scopes
            .into_iter()
            .find_map(|scopes| scopes.first().cloned())?;
        if die.unit.language == DW_LANG_Mips_Assembler {
            // Assemblers name functions and lines, and know of no types.
            return None;
        }
        let symbol = placed.module.symbol_at(own).map_or("", |s| s.name.as_str());
        let changed = COPIES.iter().any(|part| symbol.contains(part));
        Some(function(&units, &die, index, address, changed))
    }
}

fn function(units: &Rc<Units>, die: &Die, placed: usize, address: u64, changed: bool) -> Function {
    let unit = &die.unit;
    let uncallable = matches!(
        die.attr(DW_AT_calling_convention),
        Some(AttributeValue::CallingConvention(DW_CC_nocall))
    );
    let convention = match convention(unit) {
        _ if changed || uncallable => Convention::Other,
        convention => convention,
    };
    let mut function = Function {
        placed,
        address,
        parameters: Vec::new(),
        variadic: false,
        results: Vec::new(),
    };
    let of = |die: &Die| Type::new(units, units.type_of(die));
    let is_result = |die: &Die| {
        let value = units.attribute(die, DW_AT_variable_parameter);
        matches!(value, Some((_, AttributeValue::Flag(true))))
    };
    let mut results_of = Vec::new();
    let own = units
        .type_of(die)
        .map(|result| Type::new(units, Some(result)));
    let mut assigner = Assigner::new(convention, own.as_ref());
    for (child, tag) in die.children() {
        match tag {
            DW_TAG_formal_parameter if function.parameters.len() < MOST_PARAMETERS => {
                let parameter = |slot| Parameter {
                    name: units.name(&child),
                    of: of(&child),
                    slot,
                    said: Some(child.clone()),
                };
                if is_result(&child) {
                    results_of.push(of(&child));
                } else {
                    let slot = assigner.next(&of(&child));
                    function.parameters.push(parameter(slot));
                }
            }
            DW_TAG_unspecified_parameters => function.variadic = true,
            _ => {}
        }
    }
    results_of.extend(own.filter(|of| !matches!(of.shape(), Shape::Void)));
    // A result is where the convention says, whatever was done to the parameters.
    let slots = results(self::convention(unit), &results_of);
    let all = results_of.into_iter().zip(slots);
    function.results = all
        .map(|(of, slot)| Parameter {
            name: None,
            of,
            slot,
            said: None,
        })
        .collect();
    function
}

fn convention(unit: &Unit) -> Convention {
    match unit.language {
        DW_LANG_C89
        | DW_LANG_C
        | DW_LANG_C99
        | DW_LANG_C11
        | DW_LANG_C17
        | DW_LANG_C_plus_plus
        | DW_LANG_C_plus_plus_03
        | DW_LANG_C_plus_plus_11
        | DW_LANG_C_plus_plus_14
        | DW_LANG_C_plus_plus_17
        | DW_LANG_C_plus_plus_20 => Convention::C,
        DW_LANG_Rust if attribute_of(unit, DW_AT_producer).is_some_and(|p| is_known(&p)) => {
            Convention::Rust
        }
        // Before Go had a convention with registers everything was on the stack.
        DW_LANG_Go if attribute_of(unit, DW_AT_producer).is_some_and(|p| p.contains("regabi")) => {
            Convention::Go
        }
        _ => Convention::Other,
    }
}

/// Whether this version of the Rust compiler passes values in the known way. It has changed before
/// and is not stable.
fn is_known(producer: &str) -> bool {
    const SINCE: u32 = 80;
    let version = producer
        .split_once("rustc version 1.")
        .map(|(_, rest)| rest);
    let minor = version.and_then(|v| v.split('.').next()?.parse::<u32>().ok());
    minor.is_none_or(|minor| minor >= SINCE)
}

fn attribute_of(unit: &Unit, name: DwAt) -> Option<String> {
    let root = unit.unit.entry(unit.unit.header.root_offset()).ok()?;
    unit.text(root.attr_value(name)?)
}

impl Function {
    /// The arguments of a call whose thread is at the function's first instruction.
    #[must_use]
    pub fn arguments(
        &self,
        space: &Space,
        target: &mut dyn Target,
        from: &Passing,
    ) -> Vec<Argument> {
        let placed = &space.modules()[self.placed];
        let all = self.parameters.iter();
        all.map(|parameter| {
            let said = parameter.said(target, placed, self.address, from);
            let place = said.or_else(|| place(&parameter.slot, from));
            parameter.show(space, target, place, from)
        })
        .collect()
    }

    /// The results of a call that has just returned; of most languages there is one at most.
    #[must_use]
    pub fn results(&self, space: &Space, target: &mut dyn Target, from: &Passing) -> Vec<Argument> {
        let all = self.results.iter();
        all.map(|result| result.show(space, target, place(&result.slot, from), from))
            .collect()
    }
}

impl Parameter {
    /// The place at the first instruction by the compiler's location lists. A location for the
    /// whole function holds only behind its prologue.
    fn said(
        &self,
        target: &mut dyn Target,
        placed: &Placed,
        address: u64,
        from: &Passing,
    ) -> Option<Where> {
        let die = self.said.as_ref()?;
        if let (None, Some(value)) = (location(die), die.number(DW_AT_const_value)) {
            // A constant: the compiler knows all callers, and they need not pass it.
            return Some(Where::Value(value.to_le_bytes().to_vec()));
        }
        let location = location(die).filter(|l| !matches!(l, AttributeValue::Exprloc(_)))?;
        let view = View {
            thread_pointer: None,
            registers: Some(from.general),
            known: u32::MAX,
            // Only the return address was pushed.
            cfa: Some(from.general.general[7].wrapping_add(8)),
            lookup: address,
        };
        let mut evaluator = Evaluator {
            target,
            placed,
            view: &view,
            function: None,
        };
        let place = evaluator.place(&die.unit, location).ok()?;
        (place != Where::Nowhere).then_some(place)
    }

    fn show(
        &self,
        space: &Space,
        target: &mut dyn Target,
        place: Option<Where>,
        from: &Passing,
    ) -> Argument {
        let value = place.and_then(|place| space.show(target, &self.of, &place, from));
        Argument {
            name: self.name.clone(),
            of: self.of.name(),
            value,
        }
    }
}

/// The place by the calling convention; `None` if it is not known.
fn place(slot: &ArgumentLocation, from: &Passing) -> Option<Where> {
    match slot {
        ArgumentLocation::At(place) => Some(place.clone()),
        ArgumentLocation::Behind(register) => {
            let at = from.general.general.get(usize::from(*register))?;
            Some(Where::Memory(*at))
        }
        ArgumentLocation::Stack(offset) => {
            let rsp = from.general.general[7];
            Some(Where::Memory(rsp.wrapping_add(8).wrapping_add(*offset)))
        }
        ArgumentLocation::Nothing => Some(Where::Value(Vec::new())),
        ArgumentLocation::Unknown => None,
    }
}
