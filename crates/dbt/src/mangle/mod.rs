//! From one guest instruction to its translation.
//!
//! [`translate`] is the one place where an instruction is given its translation, by its
//! class; each family has a file. Instrumentation is emitted before an instruction's own
//! translation: [`check`] is the one of watched memory.

mod branch;
mod indirect;
mod memory;
mod pairs;
mod system;
mod watch;

pub(crate) use branch::{fall_through, leave_loop};
pub(crate) use system::{undefined, unsupported_name};
pub(crate) use watch::{BYTES as CHECK_BYTES, check, kinds as access_kinds};

use relive_host::layout::is_low;

use crate::classify::Class;
use crate::decode::Insn;
use crate::emit::{Asm, EXIT_BYTES};
use crate::exits::{Exit, Kind};
use crate::fragment::AddrMap;
use crate::recover::{Mark, Undo};
use crate::translate::Exits;

/// Whether the fragment goes on behind an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    Continue,
    End,
}

/// A fragment under construction.
pub(crate) struct Unit<'t> {
    pub(crate) asm: &'t mut Asm,
    pub(crate) exits: &'t mut Exits,
    pub(crate) marks: &'t mut Vec<Mark>,
    /// Its number.
    pub(crate) frag: u32,
    /// Its guest address.
    pub(crate) pc: u64,
    /// Where its body starts in `asm`.
    pub(crate) body: usize,
    /// Whether it is for single-stepping: no links, no table.
    pub(crate) step: bool,
    /// Where the last instruction starts in `asm`, if processors may make one with a conditional
    /// branch that follows.
    pub(crate) fused: Option<usize>,
    /// Whether calls and returns are paired.
    pub(crate) pairs: bool,
    /// Where the hashed table is there: the branches in low code that use it.
    pub(crate) hashed: Option<&'t AddrMap<()>>,
    /// Where landings look by `loop` whether they are meant: those that were not.
    pub(crate) misled: Option<&'t AddrMap<()>>,
}

/// Emits the translation of `insn`.
pub(crate) fn translate(unit: &mut Unit<'_>, insn: &Insn) -> Flow {
    if insn.uses_gs() {
        if insn.class == Class::Copy {
            return memory::copy_gs(unit, insn);
        }
        return unit.stop_at(insn, Kind::Unsupported, system::GS_PREFIX);
    }
    match insn.class {
        Class::Copy => memory::copy(unit, insn),
        Class::Jcc
        | Class::Loop
        | Class::Jmp
        | Class::Call
        | Class::JmpIndirect
        | Class::CallIndirect
        | Class::Ret
            if insn.is_16_bit_branch() =>
        {
            unit.stop_at(insn, Kind::Unsupported, system::BRANCH_16)
        }
        Class::Jcc => branch::jcc(unit, insn),
        Class::Loop => branch::loop_(unit, insn),
        Class::Jmp => branch::jmp(unit, insn),
        Class::Call => branch::call(unit, insn),
        Class::JmpIndirect => indirect::jmp(unit, insn),
        Class::CallIndirect => indirect::call(unit, insn),
        Class::Ret => indirect::ret(unit, insn),
        _ => system::translate(unit, insn),
    }
}

/// Stops before the instruction at `pc`.
pub(crate) fn breakpoint(unit: &mut Unit<'_>, pc: u64) {
    unit.leave(Exit::new(Kind::Breakpoint, unit.frag, pc));
}

impl Unit<'_> {
    /// Whether an indirect branch goes through the hashed table.
    fn is_hashed(&self, insn: &Insn) -> bool {
        self.hashed
            .is_some_and(|sites| !is_low(insn.pc()) || sites.contains_key(&insn.pc()))
    }

    /// Notes how to recover from a fault of the host instruction emitted next.
    pub(crate) fn mark(&mut self, insn: &Insn, undo: Undo) {
        let cache = (self.asm.buf.len() - self.body) as u16;
        let guest = insn.pc().wrapping_sub(self.pc) as u16;
        self.marks.push(Mark { cache, guest, undo });
    }

    /// Notes the fault behind the first byte of what is emitted next: see [`Asm::loop_into_load`].
    /// It is to be told of with the guest address behind `insn`.
    fn mark_misled(&mut self, insn: &Insn) {
        self.marks.push(Mark {
            cache: (self.asm.buf.len() - self.body) as u16 + 1,
            guest: insn.next().wrapping_sub(self.pc) as u16,
            undo: Undo::Misled,
        });
    }

    /// A new exit with its stub; returns the stub's cache address.
    pub(crate) fn exit(&mut self, exit: Exit) -> u32 {
        self.exits.add(exit, |_| ())
    }

    /// Ends the fragment with an exit at an instruction.
    fn stop_at(&mut self, insn: &Insn, kind: Kind, aux: u32) -> Flow {
        let mut exit = Exit::new(kind, self.frag, insn.pc());
        (exit.aux, exit.len) = (aux, insn.bytes().len() as u8);
        self.leave(exit);
        Flow::End
    }

    /// Leaves to the host unconditionally, in line.
    pub(crate) fn leave(&mut self, exit: Exit) {
        let number = self.exits.add_inline(exit, self.asm.here());
        let start = self.asm.here();
        self.asm.exit(number);
        debug_assert_eq!(self.asm.here() - start, EXIT_BYTES);
    }
}
