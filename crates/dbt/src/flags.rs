//! The arithmetic flags that are dead at a guest address: certainly overwritten before they can be
//! read.
//!
//! The answer is a function of guest code alone, never of fragments or options: where flags are
//! dead the translator may lose them, and a stopped thread shows zeros in their place, in record
//! and replay alike. A fragment that loses flags, or tells which are dead, depends on the code that
//! was looked at.
//!
//! Direct branches are followed, conditional ones to both sides, where the code cannot be written
//! ([`Code::lasting`]): only a system call changes it, so that a thread between here and there has
//! stopped before, with zeros for dead flags. Code that can be written is scanned along a straight
//! line only.
//!
//! Deadness is computed flag by flag, and the reach is counted along each path by itself. So
//! deadness persists: a flag dead at one instruction and not written by it is dead at the next one
//! too, and no lost value can ever be seen in between.

#[cfg(test)]
mod tests;

use iced_x86::{Instruction, Mnemonic, OpKind, RflagsBits};
use relive_host::GuestAddr;

use crate::classify::Class;
use crate::code::{Code, Window};
use crate::decode::{Decoded, Insn};

/// CF, PF, AF, ZF, SF and OF in RFLAGS.
pub(crate) const ARITHMETIC: u16 = 0x8d5;

/// Most instructions scanned along one path.
const REACH: u32 = 24;

/// Most branches followed along one path.
const HOPS: u32 = 3;

/// iced's flag bits and the processor's.
const BITS: [(u32, u16); 6] = [
    (RflagsBits::CF, 1),
    (RflagsBits::PF, 1 << 2),
    (RflagsBits::AF, 1 << 4),
    (RflagsBits::ZF, 1 << 6),
    (RflagsBits::SF, 1 << 7),
    (RflagsBits::OF, 1 << 11),
];

/// Instructions that write flags with any operands. AF after a logic instruction is called
/// undefined, but all processors clear it.
const LOGIC: [Mnemonic; 4] = [Mnemonic::And, Mnemonic::Or, Mnemonic::Xor, Mnemonic::Test];
const WRITERS: [Mnemonic; 20] = [
    Mnemonic::Add,
    Mnemonic::Sub,
    Mnemonic::Cmp,
    Mnemonic::Neg,
    Mnemonic::Inc,
    Mnemonic::Dec,
    Mnemonic::Adc,
    Mnemonic::Sbb,
    Mnemonic::Xadd,
    Mnemonic::Cmpxchg,
    Mnemonic::Popcnt,
    Mnemonic::Comiss,
    Mnemonic::Comisd,
    Mnemonic::Ucomiss,
    Mnemonic::Ucomisd,
    Mnemonic::Vcomiss,
    Mnemonic::Vcomisd,
    Mnemonic::Vucomiss,
    Mnemonic::Vucomisd,
    Mnemonic::Ptest,
];
/// These leave the flags alone if the masked count is 0.
const SHIFTS: [Mnemonic; 3] = [Mnemonic::Shl, Mnemonic::Shr, Mnemonic::Sar];

/// These read CF with any count: by 9, 18 or 27 for a byte, or by 17 for a word, the operand and CF
/// stay as they are, but processors still derive OF, called undefined, from CF.
const ROTATIONS_THROUGH_CARRY: [Mnemonic; 2] = [Mnemonic::Rcl, Mnemonic::Rcr];

/// Dead flags, as bits of RFLAGS: those that may be lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeadFlags(pub(crate) u16);

impl DeadFlags {
    /// Whether all flags may be lost.
    pub(crate) fn all(self) -> bool {
        self.0 == ARITHMETIC
    }

    /// Whether all but CF, the flags that a decrement changes, may be lost.
    pub(crate) fn all_but_carry(self) -> bool {
        self.0 | 1 == ARITHMETIC
    }
}

/// The result of a look ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dead {
    pub(crate) flags: DeadFlags,
    /// The ranges of bytes that the answer depends on.
    pub(crate) spans: Vec<(u64, u64)>,
}

/// The arithmetic flags, as bits of RFLAGS, that are certainly overwritten before they can
/// be read by the code at `pc`.
#[must_use]
pub fn dead_flags_at(code: &dyn Code, pc: GuestAddr) -> u64 {
    u64::from(scan(code, pc.0).flags.0)
}

/// Whether all six arithmetic flags are dead at `pc`.
#[must_use]
pub fn flags_dead_at(code: &dyn Code, pc: GuestAddr) -> bool {
    scan(code, pc.0).flags.all()
}

/// The dead ones at `pc` among the flags that are set.
pub(crate) fn dead_among(code: &dyn Code, pc: u64, set: u64) -> u64 {
    // Flags that are not set need no look ahead.
    look(code, pc, ARITHMETIC & !(set as u16)).flags.0.into()
}

/// Looks ahead from `pc`.
pub(crate) fn scan(code: &dyn Code, pc: u64) -> Dead {
    look(code, pc, 0)
}

/// Looks ahead from `pc` for other flags than those `seen`.
fn look(code: &dyn Code, pc: u64, seen: u16) -> Dead {
    let mut look = Look {
        code,
        window: Window::new(code),
        insn: Insn::new(),
        spans: Vec::new(),
    };
    let mask = look.along(pc, seen, REACH, HOPS);
    Dead {
        flags: DeadFlags(mask),
        spans: look.spans,
    }
}

struct Look<'c> {
    code: &'c dyn Code,
    window: Window<'c>,
    insn: Insn,
    spans: Vec<(u64, u64)>,
}

impl Look<'_> {
    /// The flags that are overwritten on all paths from `at` on, within `reach` instructions
    /// and `hops` branches, before they are read; without those `seen` before.
    fn along(&mut self, mut at: u64, mut seen: u16, mut reach: u32, mut hops: u32) -> u16 {
        let (mut start, mut dead) = (at, 0);
        while reach > 0 && seen != ARITHMETIC {
            reach -= 1;
            let insn = &mut self.insn;
            match insn.decode(&mut self.window, at) {
                Decoded::Insn => at = insn.next(),
                Decoded::Undefined => {
                    at = at.wrapping_add(15);
                    break;
                }
                // Once there is code the answer may be another one.
                Decoded::Truncated { addr } => {
                    at = addr.wrapping_add(1);
                    break;
                }
            }
            seen |= reads(&insn.iced);
            if insn.class == Class::Copy {
                let killed = kills(&insn.iced) & !seen;
                dead |= killed;
                seen |= killed;
                continue;
            }
            let Some(target) = self.followed(hops) else {
                break;
            };
            hops -= 1;
            let forks = matches!(self.insn.class, Class::Jcc | Class::Loop);
            self.note(start, at);
            if forks {
                let taken = self.along(target, seen, reach, hops);
                if taken == 0 {
                    return dead;
                }
                return dead | taken & self.along(at, seen, reach, hops);
            }
            (start, at) = (target, target);
        }
        self.note(start, at);
        dead
    }

    /// The target of the branch just decoded, if it is to be followed.
    fn followed(&mut self, hops: u32) -> Option<u64> {
        let insn = &self.insn;
        let direct = matches!(
            insn.class,
            Class::Jmp | Class::Call | Class::Jcc | Class::Loop
        );
        if hops == 0 || !direct || insn.is_16_bit_branch() {
            return None;
        }
        let (pc, target) = (insn.pc(), insn.iced.near_branch_target());
        if !self.code.lasting(GuestAddr(pc)) {
            return None;
        }
        if !self.code.lasting(GuestAddr(target)) {
            // It may be so later.
            self.note(target, target.wrapping_add(1));
            return None;
        }
        Some(target)
    }

    fn note(&mut self, start: u64, end: u64) {
        match self.spans.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ if start < end => self.spans.push((start, end)),
            _ => {}
        }
    }
}

fn map(bits: u32) -> u16 {
    BITS.iter()
        .filter(|(b, _)| bits & b != 0)
        .fold(0, |m, (_, f)| m | f)
}

/// Flags that the outcome of the instruction depends on, its undefined flags too.
fn reads(insn: &Instruction) -> u16 {
    let carry = u16::from(ROTATIONS_THROUGH_CARRY.contains(&insn.mnemonic()));
    map(insn.rflags_read()) | carry
}

/// Flags certainly overwritten with values that depend on nothing but defined inputs.
fn kills(insn: &Instruction) -> u16 {
    let written = || map(insn.rflags_written() | insn.rflags_cleared() | insn.rflags_set());
    let mnemonic = insn.mnemonic();
    if LOGIC.contains(&mnemonic) {
        written() | 1 << 4
    } else if WRITERS.contains(&mnemonic)
        || SHIFTS.contains(&mnemonic) && insn.op1_kind() == OpKind::Immediate8
    {
        written()
    } else {
        0
    }
}
