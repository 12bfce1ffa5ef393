//! The variable, or the part of one, that lies at an address.

#![expect(non_upper_case_globals, reason = "DWARF's constants have its names")]

use std::rc::Rc;

use gimli::constants::{DW_TAG_formal_parameter, DW_TAG_variable};

use crate::evaluate::{View, Where};
use crate::globals::{Global, Globals};
use crate::module::SymbolType;
use crate::names::{self, VariableDie};
use crate::placed::Placed;
use crate::space::Space;
use crate::target::Target;
use crate::types::{Shape, Type};
use crate::variable::place_of;

/// Parts in parts, at most.
const MOST_DEPTH: usize = 32;

/// The data at an address.
pub struct Holder {
    /// Its name, as an expression: `config.limits[3].max`, `queue->head`.
    pub name: String,
    /// Its type, if debug information has it.
    pub of: Option<Type>,
    /// Its first address.
    pub address: u64,
    /// Whether it is an atomic object, or part of one.
    pub atomic: bool,
}

impl Space {
    /// The variable at an address: one of the frame, or an object that one of its pointers leads to; then one
    /// with a permanent place; then a name of the linker's.
    pub fn holder(&self, target: &mut dyn Target, address: u64, view: &View) -> Option<Holder> {
        self.global(target, address)
            .or_else(|| self.of_frame(target, address, view))
            .or_else(|| self.symbol_of_data(address))
    }

    fn of_frame(&self, target: &mut dyn Target, address: u64, view: &View) -> Option<Holder> {
        view.registers?;
        let (_, placed) = self.place_at(view.lookup)?;
        let units = placed.module.units()?;
        let at = view.lookup.wrapping_sub(placed.bias);
        let scopes = units.at(at).map(|unit| names::scopes(unit, at));
        let scopes = scopes.into_iter().find(|scopes| !scopes.is_empty())?;
        let function = scopes.first().cloned();
        let mut led_to = None;
        for scope in scopes.iter().rev() {
            for (die, tag) in scope.children() {
                if !matches!(tag, DW_TAG_variable | DW_TAG_formal_parameter) {
                    continue;
                }
                let Some(name) = units.name(&die) else {
                    continue;
                };
                let of = Type::new(&units, units.type_of(&die));
                let Ok(place) = place_of(target, placed, view, &die, function.clone()) else {
                    continue;
                };
                if let Where::Memory(start) = place
                    && let Some(holder) = within(&name, &of, start, address)
                {
                    return Some(holder);
                }
                if led_to.is_none()
                    && let Shape::Pointer(to) = of.shape()
                    && let Some(start) = word(target, view, &place)
                    && let Some(holder) = behind(&name, &to, start, address)
                {
                    led_to = Some(holder);
                }
            }
        }
        led_to
    }

    fn global(&self, target: &mut dyn Target, address: u64) -> Option<Holder> {
        let globals = self.globals_around(target, address)?;
        let global = globals.at(address)?;
        within(&global.name, &global.of, global.start, address)
    }

    /// The variables of the module before an address: those without initial values lie behind the
    /// file's maps.
    fn globals_around(&self, target: &mut dyn Target, address: u64) -> Option<Rc<Globals>> {
        let begin = |placed: &Placed| placed.ranges.first().map_or(0, |range| range.0);
        let before = self.modules().iter().enumerate();
        let before = before.filter(|(_, placed)| begin(placed) <= address);
        let (index, placed) = before.max_by_key(|(_, placed)| begin(placed))?;
        if let Some(known) = self.globals.borrow().get(&index) {
            return Some(Rc::clone(known));
        }
        let globals = Rc::new(globals_of(target, placed));
        self.globals.borrow_mut().insert(index, Rc::clone(&globals));
        Some(globals)
    }

    fn symbol_of_data(&self, address: u64) -> Option<Holder> {
        self.modules().iter().find_map(|placed| {
            let own = address.wrapping_sub(placed.bias);
            let symbol = placed.module.symbol_at(own)?;
            let offset = own - symbol.address;
            if symbol.kind != SymbolType::Variable || offset >= symbol.size.max(1) {
                return None;
            }
            let name = crate::demangle::demangled(&symbol.name);
            Some(Holder {
                name: match offset {
                    0 => name,
                    offset => format!("{name}+{offset:#x}"),
                },
                of: None,
                address,
                atomic: false,
            })
        })
    }
}

/// All variables of a module that have a permanent place in memory.
fn globals_of(target: &mut dyn Target, placed: &Placed) -> Globals {
    let mut all = Vec::new();
    let Some(units) = placed.module.units() else {
        return Globals::default();
    };
    for unit in &units.own {
        names::variables(&units, unit, &mut |VariableDie { die, path, lasting }| {
            if !lasting {
                return;
            }
            let place = place_of(target, placed, &View::default(), &die, None);
            let of = Type::new(&units, units.type_of(&die));
            // Those at the module's very beginning were dropped by the linker.
            if let (Ok(Where::Memory(start)), Some(size)) = (place, of.size())
                && start != placed.bias
            {
                all.push(Global {
                    start,
                    end: start.saturating_add(size),
                    name: path,
                    of,
                });
            }
        });
    }
    Globals::new(all)
}

/// A pointer's value.
fn word(target: &mut dyn Target, view: &View, place: &Where) -> Option<u64> {
    match place {
        Where::Memory(at) => {
            let mut bytes = [0; 8];
            target
                .read(*at, &mut bytes)
                .then(|| u64::from_le_bytes(bytes))
        }
        Where::Register(n) if view.known >> n & 1 == 1 => {
            view.registers?.general.get(usize::from(*n)).copied()
        }
        Where::Value(bytes) => Some(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?)),
        _ => None,
    }
}

/// The part of a pointer's object that lies at `address`.
fn behind(name: &str, to: &Type, start: u64, address: u64) -> Option<Holder> {
    let holder = within("", to, start, address)?;
    Some(Holder {
        name: match holder.name.strip_prefix('.') {
            Some(member) => format!("{name}->{member}"),
            None if holder.name.is_empty() => format!("*{name}"),
            None => format!("(*{name}){}", holder.name),
        },
        ..holder
    })
}

/// The part of a variable at `start` that lies at `address`.
fn within(name: &str, of: &Type, start: u64, address: u64) -> Option<Holder> {
    let size = of.size()?;
    if !(start..start.checked_add(size)?).contains(&address) {
        return None;
    }
    let (mut name, mut of, mut start) = (name.to_owned(), of.clone(), start);
    let mut atomic = false;
    for _ in 0..MOST_DEPTH {
        atomic |= of.is_atomic();
        if atomic {
            break;
        }
        let offset = address - start;
        match of.shape() {
            Shape::Class => {
                let holds = |m: &crate::types::Member| {
                    let size = m.of.size().unwrap_or(0);
                    (m.offset..m.offset.saturating_add(size)).contains(&offset)
                };
                let Some(member) = of.members().into_iter().find(holds) else {
                    break;
                };
                if let Some(own) = &member.name {
                    name = format!("{name}.{own}");
                }
                start += member.offset;
                of = member.of;
            }
            Shape::Array(element, _) => {
                let Some(size) = element.size().filter(|size| *size > 0) else {
                    break;
                };
                name = format!("{name}[{}]", offset / size);
                start += offset / size * size;
                of = element;
            }
            _ => break,
        }
    }
    Some(Holder {
        name,
        of: Some(of),
        address: start,
        atomic,
    })
}
