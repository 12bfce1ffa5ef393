//! Lookup of one variable, or a part of one, by its text.

#![expect(non_upper_case_globals, reason = "DWARF's constants have its names")]

use std::collections::BTreeSet;
use std::rc::Rc;

use gimli::DW_TAG_formal_parameter;
use gimli::constants::{DW_AT_const_value, DW_TAG_variable};

use crate::demangle::demangled;
use crate::evaluate::{Evaluator, View, Where, location};
use crate::module::SymbolType;
use crate::names::{self, VariableDie, is_file, is_meant, near};
use crate::part::Walk;
use crate::path::{Path, Step};
use crate::placed::Placed;
use crate::space::Space;
use crate::target::Target;
use crate::types::Type;
use crate::units::{Die, Unit, Units};
use crate::unknown::Unknown;

/// Limit on the listed places of an ambiguous name.
const MOST_LISTED: usize = 20;

/// A variable that was found.
pub struct Variable {
    /// Its name with all enclosing scopes.
    pub name: String,
    /// Its module.
    pub module: String,
    /// Its type, if debug information has it.
    pub of: Option<Type>,
    /// Its place.
    pub place: Where,
    /// Its bytes; 0 if they are not known.
    pub size: u64,
}

/// The reason why there is none.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    /// The text does not parse.
    #[error("{0}")]
    Unreadable(String),
    /// No variable has the name.
    #[error("there is no variable {name} in the symbols of the program and of the libraries that it has there{}", like(.near))]
    Unknown {
        /// The name.
        name: String,
        /// Similar names.
        near: Vec<String>,
    },
    /// Several variables have the name.
    #[error("several variables are called {name}, say which (bank.c:{name}, function::{name}), or give an address: {}", .all.join(", "))]
    Several {
        /// The name.
        name: String,
        /// Their full names.
        all: Vec<String>,
    },
    /// It exists, but has no place, or no such part.
    #[error("{name}: {why}")]
    NoPlace {
        /// The text that was asked for.
        name: String,
        /// The reason.
        why: Unknown,
    },
}

fn like(near: &[String]) -> String {
    match near {
        [] => "; without debug information only the linker's names are known".to_owned(),
        near => format!("; names like it: {}", near.join(", ")),
    }
}

/// A variable, before its parts are resolved.
struct Base {
    name: String,
    placed: usize,
    die: Option<(Rc<Units>, Die)>,
    place: Where,
    size: u64,
}

impl Space {
    /// Finds a variable, or a part of one, in scope order: first in the frame, if there is one,
    /// then everywhere.
    ///
    /// # Errors
    /// There is none, there are several, or it has no place.
    pub fn variable(
        &self,
        target: &mut dyn Target,
        text: &str,
        view: &View,
    ) -> Result<Variable, Missing> {
        let path = Path::read(text)
            .map_err(|why| Missing::Unreadable(format!("{text} is no variable: {why}")))?;
        // The longest name first: the words behind its points may be members, or Go's name.
        for taken in (1..=path.base.len()).rev() {
            let name = path.base[..taken].join(".");
            let Some(base) = self.base(target, path.file.as_deref(), &name, view)? else {
                continue;
            };
            let members = path.base[taken..].iter().cloned().map(Step::Member);
            let steps: Vec<Step> = members.chain(path.steps.iter().cloned()).collect();
            return self.part(target, base, &steps, view).map_err(|why| {
                let name = text.to_owned();
                Missing::NoPlace { name, why }
            });
        }
        let name = path.base[0].clone();
        let near = self.near(&path.base.join("."));
        Err(Missing::Unknown { name, near })
    }

    fn base(
        &self,
        target: &mut dyn Target,
        file: Option<&str>,
        name: &str,
        view: &View,
    ) -> Result<Option<Base>, Missing> {
        if file.is_none()
            && view.registers.is_some()
            && let Some(local) = self.local(target, name, view)
        {
            return local.map(Some).map_err(|why| Missing::NoPlace {
                name: name.to_owned(),
                why,
            });
        }
        let mut found: Vec<Base> = Vec::new();
        let mut why = None;
        // Variables of frames.
        let mut passing = BTreeSet::new();
        for (index, placed) in self.modules().iter().enumerate() {
            let Some(units) = placed.module.units() else {
                continue;
            };
            let mut all: Vec<VariableDie> = Vec::new();
            for unit in &units.own {
                if file.is_none_or(|file| is_file(&unit.source(), file)) {
                    names::variables(&units, unit, &mut |one| {
                        if is_meant(&one.path, name) {
                            all.push(one);
                        }
                    });
                }
            }
            for VariableDie { die, path, lasting } in all {
                if !lasting {
                    passing.insert(path);
                    continue;
                }
                let place = place_of(target, placed, view, &die, None);
                match place {
                    // The linker dropped it.
                    Ok(Where::Memory(at)) if at == placed.bias => {}
                    Ok(place) if found.iter().any(|f| f.place == place && f.placed == index) => {}
                    Ok(place) => found.push(Base {
                        size: Type::new(&units, units.type_of(&die)).size().unwrap_or(0),
                        name: path,
                        placed: index,
                        die: Some((Rc::clone(&units), die)),
                        place,
                    }),
                    Err(e) => why = Some(e),
                }
            }
        }
        // A whole name takes precedence over the end of a longer one, a variable over a constant.
        if found.iter().any(|f| f.name == name) {
            found.retain(|f| f.name == name);
        }
        if found.len() > 1 && found.iter().any(|f| matches!(f.place, Where::Memory(_))) {
            found.retain(|f| matches!(f.place, Where::Memory(_)));
        }
        if found.len() > 1 {
            return Err(self.several(name, &found));
        }
        if let Some(one) = found.pop() {
            return Ok(Some(one));
        }
        match why {
            Some(why) => Err(Missing::NoPlace {
                name: name.to_owned(),
                why,
            }),
            None if file.is_none() => match self.linked(name)? {
                None if !passing.is_empty() => Err(of_a_frame(name, &passing)),
                found => Ok(found),
            },
            None if !passing.is_empty() => Err(of_a_frame(name, &passing)),
            None => Ok(None),
        }
    }

    /// Finds it in the symbol table.
    fn linked(&self, name: &str) -> Result<Option<Base>, Missing> {
        let mut found: Vec<Base> = Vec::new();
        for (index, placed) in self.modules().iter().enumerate() {
            for symbol in placed.module.symbols_named(name, SymbolType::Variable) {
                let place = Where::Memory(symbol.address.wrapping_add(placed.bias));
                if found.iter().all(|f| f.place != place) {
                    found.push(Base {
                        name: demangled(&symbol.name),
                        placed: index,
                        die: None,
                        place,
                        size: symbol.size,
                    });
                }
            }
        }
        if found.len() > 1 {
            return Err(self.several(name, &found));
        }
        Ok(found.pop())
    }

    fn several(&self, name: &str, found: &[Base]) -> Missing {
        let all = found.iter().take(MOST_LISTED).map(|f| {
            let at = match f.place {
                Where::Memory(at) => format!("{at:#x}"),
                _ => "elsewhere".to_owned(),
            };
            let source = f.die.as_ref().map(|(_, die)| die.unit.source());
            let file = source.filter(|s| !s.is_empty());
            let of = file.unwrap_or_else(|| self.modules()[f.placed].path.clone());
            format!("{at} ({} in {of})", f.name)
        });
        Missing::Several {
            name: name.to_owned(),
            all: all.collect(),
        }
    }

    /// A variable of the frame; `None` if the frame has none of that name.
    fn local(
        &self,
        target: &mut dyn Target,
        name: &str,
        view: &View,
    ) -> Option<Result<Base, Unknown>> {
        let (index, placed) = self.place_at(view.lookup)?;
        let units = placed.module.units()?;
        let at = view.lookup.wrapping_sub(placed.bias);
        let scopes = units.at(at).map(|unit| names::scopes(unit, at));
        let scopes = scopes.into_iter().find(|scopes| !scopes.is_empty())?;
        let variable = |scope: &Die| {
            let all = scope.children().into_iter();
            all.filter(|(_, tag)| matches!(*tag, DW_TAG_variable | DW_TAG_formal_parameter))
                .map(|(die, _)| die)
                .filter(|die| units.name(die).as_deref() == Some(name))
                // Of several in one block the last one hides the others.
                .last()
        };
        let die = scopes.iter().rev().find_map(variable)?;
        let function = scopes.first().cloned();
        // A static variable of an inlined function has its place at the original entry.
        let with_place = match location(&die) {
            Some(_) => die.clone(),
            None => die
                .entry()
                .and_then(|entry| units.origin(&die.unit, &entry))
                .filter(|origin| location(origin).is_some())
                .unwrap_or_else(|| die.clone()),
        };
        let place = place_of(target, placed, view, &with_place, function);
        Some(place.map(|place| Base {
            name: name.to_owned(),
            placed: index,
            size: Type::new(&units, units.type_of(&die)).size().unwrap_or(0),
            die: Some((Rc::clone(&units), die)),
            place,
        }))
    }

    /// Goes from a variable to a part of it.
    fn part(
        &self,
        target: &mut dyn Target,
        base: Base,
        steps: &[Step],
        view: &View,
    ) -> Result<Variable, Unknown> {
        let module = self.modules()[base.placed].path.clone();
        let Some((units, die)) = base.die else {
            if steps.is_empty() {
                return Ok(Variable {
                    name: base.name,
                    module,
                    of: None,
                    place: base.place,
                    size: base.size,
                });
            }
            return Err("there is no debug information that says of what type it is".into());
        };
        let mut walk = Walk {
            target,
            registers: view.registers.as_ref(),
            of: Type::new(&units, units.type_of(&die)),
            place: base.place,
            bits: None,
        };
        for step in steps {
            match step {
                Step::Member(name) => walk.member(name)?,
                Step::Index(n) => walk.index(*n)?,
                Step::Target => walk.target()?,
            }
        }
        if walk.place == Where::Nowhere {
            return Err("it was optimized out there".into());
        }
        let size = match walk.bits {
            Some((first, bits)) => first.saturating_add(bits).div_ceil(8),
            None => walk.of.size().unwrap_or(0),
        };
        Ok(Variable {
            name: base.name,
            module,
            size,
            // The value of a bit field is only some bits of its bytes.
            of: walk.bits.is_none().then_some(walk.of),
            place: walk.place,
        })
    }

    fn near(&self, name: &str) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for placed in self.modules() {
            if let Some(units) = placed.module.units() {
                for unit in &units.own {
                    names::variables(&units, unit, &mut |one| {
                        if one.lasting {
                            all.push(one.path);
                        }
                    });
                }
            }
            all.extend(placed.module.names(SymbolType::Variable).map(demangled));
        }
        near(name, all.iter().map(String::as_str))
    }
}

/// The error for a variable of a frame when no frame is given.
fn of_a_frame(name: &str, all: &BTreeSet<String>) -> Missing {
    const SHOWN: usize = 5;
    let mut shown: Vec<&str> = all.iter().take(SHOWN).map(String::as_str).collect();
    if all.len() > SHOWN {
        shown.push("…");
    }
    Missing::NoPlace {
        name: name.to_owned(),
        why: format!(
            "it belongs to frames of a function ({}): say which one with --at and --frame",
            shown.join(", ")
        )
        .into(),
    }
}

/// The place of an entry's variable.
pub(crate) fn place_of(
    target: &mut dyn Target,
    placed: &Placed,
    view: &View,
    die: &Die,
    function: Option<Die>,
) -> Result<Where, Unknown> {
    let Some(location) = location(die) else {
        // A constant, or nothing.
        return Ok(match die.number(DW_AT_const_value) {
            Some(value) => Where::Value(value.to_le_bytes().to_vec()),
            None => Where::Nowhere,
        });
    };
    let unit: &Rc<Unit> = &die.unit;
    let mut evaluator = Evaluator {
        target,
        placed,
        view,
        function,
    };
    evaluator.place(unit, location)
}
