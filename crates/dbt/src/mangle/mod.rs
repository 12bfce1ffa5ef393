//! From one guest instruction to its translation.
//!
//! [`translate`] is the one place where an instruction is given its translation, by its class; each
//! family has a file. Instrumentation is not done here: see `passes`.

mod branch;
mod indirect;
mod memory;
mod pairs;
mod system;

pub(crate) use branch::{fall_through, leave_loop, leave_loop_ahead};
pub(crate) use memory::{Around, copy, unused_register};
pub(crate) use system::{undefined, unsupported_name};

use crate::classify::Class;
use crate::decode::Insn;
use crate::exit::{Exit, ExitKind};
use crate::unit::{Flow, Unit};

/// Most bytes of the translation of one instruction, by its class or by a pass, stubs included.
pub(crate) const INSN_BYTES: u32 = 224;

/// Emits the translation of `insn`.
pub(crate) fn translate(unit: &mut Unit<'_>, insn: &Insn) -> Flow {
    if insn.uses_gs() && insn.class != Class::Copy {
        return unit.stop_at(insn, ExitKind::Unsupported, system::GS_PREFIX);
    }
    match insn.class {
        Class::Copy => memory::copy_plain(unit, insn),
        Class::Jcc
        | Class::Loop
        | Class::Jmp
        | Class::Call
        | Class::JmpIndirect
        | Class::CallIndirect
        | Class::Ret
            if insn.is_16_bit_branch() =>
        {
            unit.stop_at(insn, ExitKind::Unsupported, system::BRANCH_16)
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
    unit.leave(Exit::new(ExitKind::Breakpoint, unit.frag, pc));
}
