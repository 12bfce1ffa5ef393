//! Places of arguments and results by calling conventions: the System V ABI for C and C++ (3.2.3),
//! Go's internal ABI (the document abi-internal of its compiler), and for Rust the rules that
//! follow from how LLVM passes scalars.

#![expect(non_upper_case_globals, reason = "DWARF's constants have its names")]

mod leaves;

use gimli::constants::*;

use self::leaves::{Leaf, alignment, leaves, rust_leaves};
use crate::evaluate::Where;
use crate::passing_rust::form;
use crate::types::{Shape, Type};

/// General registers of arguments, by DWARF's numbers: rdi, rsi, rdx, rcx, r8, r9.
const SYSV: [u16; 6] = [5, 4, 1, 2, 8, 9];
/// Those of Go: rax, rbx, rcx, rdi, rsi, r8 to r11.
const GO: [u16; 9] = [0, 3, 2, 5, 4, 8, 9, 10, 11];
/// rax and rdx.
const RESULT: [u16; 2] = [0, 1];
/// The first vector register.
const XMM: u16 = 17;

/// The calling convention.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Convention {
    C,
    Go,
    Rust,
    /// An unknown one.
    Other,
}

/// A place at the moment of a call or a return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentLocation {
    /// In registers.
    At(Where),
    /// In memory at the address in this register.
    Behind(u16),
    /// On the stack, this many bytes behind the return address.
    Stack(u64),
    /// It has no bytes.
    Nothing,
    /// Not known.
    Unknown,
}

/// Assigns places to arguments, one after the other.
pub(crate) struct Assigner {
    convention: Convention,
    general: usize,
    vector: u16,
    stack: u64,
    /// The places of all further arguments are unknown.
    lost: bool,
}

impl Assigner {
    /// For a function with this result.
    pub(crate) fn new(convention: Convention, result: Option<&Type>) -> Self {
        let hidden = match (convention, result) {
            (Convention::C, Some(of)) => {
                matches!(c_classes(of), Classes::Memory) || of.by_reference()
            }
            (Convention::Rust, Some(of)) => of
                .size()
                .zip(form(of))
                .is_some_and(|(size, form)| rust_leaves(form, size).is_none()),
            _ => false,
        };
        Self {
            convention,
            general: usize::from(hidden),
            vector: 0,
            stack: 0,
            lost: convention == Convention::Other
                || convention == Convention::Rust && result.is_some_and(|of| form(of).is_none()),
        }
    }

    /// The place of the next argument.
    pub(crate) fn next(&mut self, of: &Type) -> ArgumentLocation {
        if self.lost {
            return ArgumentLocation::Unknown;
        }
        match self.convention {
            Convention::C => self.c(of),
            Convention::Go => self.go(of),
            Convention::Rust => self.rust(of),
            Convention::Other => ArgumentLocation::Unknown,
        }
    }

    fn lose(&mut self) -> ArgumentLocation {
        self.lost = true;
        ArgumentLocation::Unknown
    }

    fn c(&mut self, of: &Type) -> ArgumentLocation {
        if of.by_reference() {
            return match self.take() {
                Some(register) => ArgumentLocation::Behind(register),
                None => self.lose(),
            };
        }
        let Some(size) = of.size() else {
            return self.lose();
        };
        let parts = match c_classes(of) {
            Classes::Nothing => return ArgumentLocation::Nothing,
            Classes::Unknown => return self.lose(),
            Classes::Memory => return self.push(of, size),
            Classes::Parts(parts) => parts,
        };
        let general = parts.iter().filter(|float| !**float).count();
        let vector = parts.len() - general;
        // Either all of it is in registers, or nothing.
        if self.general + general > SYSV.len() || usize::from(self.vector) + vector > 8 {
            return self.push(of, size);
        }
        let mut pieces = Vec::new();
        for (i, float) in parts.iter().enumerate() {
            let register = match float {
                true => self.take_vector(),
                false => self.take().unwrap_or_default(),
            };
            let rest = size.saturating_sub(8 * i as u64).min(8);
            pieces.push((Where::Register(register), rest as usize));
        }
        ArgumentLocation::At(whole(pieces))
    }

    fn push(&mut self, of: &Type, size: u64) -> ArgumentLocation {
        if alignment(of) > 8 {
            self.stack = self.stack.next_multiple_of(16);
        }
        let at = self.stack;
        self.stack += size.next_multiple_of(8);
        ArgumentLocation::Stack(at)
    }

    fn go(&mut self, of: &Type) -> ArgumentLocation {
        let Some(leaves) = leaves(of) else {
            // On the stack; the other arguments' registers are not affected.
            return ArgumentLocation::Unknown;
        };
        if leaves.is_empty() {
            return ArgumentLocation::Nothing;
        }
        let floats = leaves.iter().filter(|leaf| leaf.float).count();
        if self.general + leaves.len() - floats > GO.len() || usize::from(self.vector) + floats > 15
        {
            return ArgumentLocation::Unknown;
        }
        let mut pieces = Vec::new();
        for leaf in &leaves {
            let register = if leaf.float {
                self.take_vector()
            } else {
                self.general += 1;
                GO[self.general - 1]
            };
            pad(&mut pieces, leaf.offset);
            pieces.push((Where::Register(register), leaf.size as usize));
        }
        pad(&mut pieces, of.size().unwrap_or(0));
        ArgumentLocation::At(whole(pieces))
    }

    fn rust(&mut self, of: &Type) -> ArgumentLocation {
        let (Some(size), Some(form)) = (of.size(), form(of)) else {
            return self.lose();
        };
        let Some(leaves) = rust_leaves(form, size) else {
            return match self.take() {
                // By reference to a copy.
                Some(register) => ArgumentLocation::Behind(register),
                None => self.lose(),
            };
        };
        let floats = leaves.iter().filter(|leaf| leaf.float).count();
        let general = leaves.len() - floats;
        if self.general + general > SYSV.len() || usize::from(self.vector) + floats > 8 {
            return self.lose();
        }
        rust_slot(&leaves, size, |float| match float {
            true => self.take_vector(),
            false => self.take().unwrap_or_default(),
        })
    }

    fn take(&mut self) -> Option<u16> {
        let register = SYSV.get(self.general).copied();
        self.general += 1;
        register
    }

    fn take_vector(&mut self) -> u16 {
        self.vector += 1;
        XMM + self.vector - 1
    }
}

/// The places of the results: several in Go, one in other languages.
pub(crate) fn results(convention: Convention, of: &[Type]) -> Vec<ArgumentLocation> {
    match (convention, of) {
        (Convention::Go, all) => {
            let mut assigner = Assigner::new(Convention::Go, None);
            all.iter().map(|of| assigner.next(of)).collect()
        }
        (Convention::C, [of]) => vec![c_result(of)],
        (Convention::Rust, [of]) => vec![rust_result(of)],
        (_, all) => all.iter().map(|_| ArgumentLocation::Unknown).collect(),
    }
}

fn c_result(of: &Type) -> ArgumentLocation {
    if of.by_reference() {
        return ArgumentLocation::Behind(RESULT[0]);
    }
    let Some(size) = of.size() else {
        return ArgumentLocation::Unknown;
    };
    match c_classes(of) {
        Classes::Nothing => ArgumentLocation::Nothing,
        Classes::Memory if matches!(of.shape(), Shape::Base(_)) => ArgumentLocation::Unknown,
        Classes::Memory => ArgumentLocation::Behind(RESULT[0]),
        Classes::Unknown => ArgumentLocation::Unknown,
        Classes::Parts(parts) => {
            let (mut general, mut vector) = (0, 0);
            let mut pieces = Vec::new();
            for (i, float) in parts.iter().enumerate() {
                let register = if *float {
                    vector += 1;
                    XMM + vector - 1
                } else {
                    general += 1;
                    RESULT[(general - 1).min(1)]
                };
                let rest = size.saturating_sub(8 * i as u64).min(8);
                pieces.push((Where::Register(register), rest as usize));
            }
            ArgumentLocation::At(whole(pieces))
        }
    }
}

fn rust_result(of: &Type) -> ArgumentLocation {
    let (Some(size), Some(form)) = (of.size(), form(of)) else {
        return ArgumentLocation::Unknown;
    };
    let Some(leaves) = rust_leaves(form, size) else {
        return ArgumentLocation::Behind(RESULT[0]);
    };
    let (mut general, mut vector) = (0, 0);
    rust_slot(&leaves, size, |float| {
        let next = if float { &mut vector } else { &mut general };
        *next += 1;
        match float {
            true => XMM + vector - 1,
            false => RESULT[usize::from(general - 1).min(1)],
        }
    })
}

fn rust_slot(
    leaves: &[Leaf],
    size: u64,
    mut register: impl FnMut(bool) -> u16,
) -> ArgumentLocation {
    if leaves.is_empty() {
        return ArgumentLocation::Nothing;
    }
    let mut pieces = Vec::new();
    for leaf in leaves {
        pad(&mut pieces, leaf.offset);
        pieces.push((Where::Register(register(leaf.float)), leaf.size as usize));
    }
    pad(&mut pieces, size);
    ArgumentLocation::At(whole(pieces))
}

/// Bytes between scalars are padding.
fn pad(pieces: &mut Vec<(Where, usize)>, up_to: u64) {
    let there: usize = pieces.iter().map(|(_, size)| size).sum();
    let gap = usize::try_from(up_to)
        .unwrap_or(there)
        .saturating_sub(there);
    if gap > 0 {
        pieces.push((Where::Value(vec![0; gap]), gap));
    }
}

fn whole(mut pieces: Vec<(Where, usize)>) -> Where {
    match pieces.len() {
        1 => pieces.remove(0).0,
        _ => Where::Pieces(pieces),
    }
}

/// How C passes a type.
enum Classes {
    /// For each eight bytes: whether they go into a vector register.
    Parts(Vec<bool>),
    Memory,
    Nothing,
    Unknown,
}

fn c_classes(of: &Type) -> Classes {
    match of.shape() {
        Shape::Void => return Classes::Nothing,
        // Complex numbers and x87's: the latter go by the stack.
        Shape::Base(DW_ATE_float) if of.size() == Some(16) => {
            // One of the two kinds of 16 bytes goes in a register; entries do not tell which.
            return match of.name().as_str() {
                "long double" => Classes::Memory,
                _ => Classes::Unknown,
            };
        }
        Shape::Base(DW_ATE_complex_float) => return Classes::Unknown,
        _ => {}
    }
    let Some(size) = of.size() else {
        return Classes::Unknown;
    };
    if size > 16 {
        return Classes::Memory;
    }
    let Some(leaves) = leaves(of) else {
        return Classes::Unknown;
    };
    if leaves.is_empty() {
        return Classes::Nothing;
    }
    if leaves
        .iter()
        .any(|leaf| leaf.size > 8 || !leaf.offset.is_multiple_of(leaf.size.max(1)))
    {
        return match leaves[..] {
            [
                Leaf {
                    size: 16,
                    float: false,
                    ..
                },
            ] => Classes::Parts(vec![false, false]),
            _ => Classes::Memory,
        };
    }
    let parts = (0..size.div_ceil(8)).map(|i| {
        let within = |leaf: &&Leaf| leaf.offset / 8 == i;
        leaves.iter().filter(within).all(|leaf| leaf.float)
    });
    Classes::Parts(parts.collect())
}
