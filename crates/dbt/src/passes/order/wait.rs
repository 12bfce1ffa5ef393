//! The code around an ordered instruction whose order is replayed while threads run together: it leaves in front of
//! an operation that has to wait, and tells behind the instruction that the operation is complete.
//!
//! No flag changes: those behind an atomic instruction are nearly always alive, and the countdown is the same
//! everywhere. The countdown goes up, as the signal handler takes one that goes down for that of a tick.

use relive_host::context::off;

use crate::decode::Insn;
use crate::emit::{EXIT_BYTES, RCX};
use crate::exit::{Exit, ExitKind};
use crate::mangle::{self, Around};
use crate::unit::Unit;

/// Most bytes around an instruction.
pub(super) const BYTES: u32 = 160;

/// Emits the instruction.
pub(super) fn around(unit: &mut Unit<'_>, insn: &Insn) {
    let asm = &mut *unit.asm;
    asm.spill_rcx();
    asm.load(RCX, off::TO_EDGE);
    asm.keep_whole(2);
    let restore = 9;
    let leave = restore + EXIT_BYTES;
    // Over the short jump that leads past the exit.
    asm.jrcxz(asm.here() + 2 + 2);
    let past = asm.jump_ahead();
    asm.restore_rcx();
    let from = asm.here();
    unit.leave(Exit::new(ExitKind::Ordered, unit.frag, insn.pc()));
    debug_assert_eq!(unit.asm.here() - from + restore, leave);
    let asm = &mut *unit.asm;
    asm.land(past);
    asm.add_rcx(1);
    asm.store(off::TO_EDGE, RCX);
    asm.load(RCX, off::OPS);
    asm.add_rcx(1);
    asm.store(off::OPS, RCX);
    asm.restore_rcx();
    mangle::copy(unit, insn, Around::Ordered { object: None });
    // Stores become visible in their order: whoever sees this one sees the instruction's.
    let asm = &mut *unit.asm;
    asm.spill_rcx();
    asm.load(RCX, off::OPS);
    asm.store(off::DONE, RCX);
    asm.restore_rcx();
}
