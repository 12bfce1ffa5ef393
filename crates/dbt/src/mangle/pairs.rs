//! Paired calls and returns: made with the processor's own `call` and `ret`, so that it predicts
//! returns as it does natively; an indirect jump through the branch table would need an entry in
//! its indirect predictor for each.
//!
//! The guest's stack holds guest addresses as always. The host's lie in the shadow
//! (`crate::shadow`), each at the same distance from the guest's:
//!
//! ```text
//! call:     push guest address         return:  pop rcx
//!           lea rsp, [rsp - BELOW + 8]          lea rsp, [rsp - BELOW - 8]
//!           call entry                          ret
//! landing:  lea rsp, [rsp + BELOW]     entry:   lea rsp, [rsp + BELOW]
//!           does rcx lead here?                 (a tick, the body)
//! ```
//!
//! A shadow slot holds the landing of the call made last from that stack address; each landing
//! checks the guest's return address. So a return without a paired call, or to a changed address,
//! is noticed, and the host performs it ([`ExitKind::ReturnLost`]): no flag has changed, for flags
//! may be alive at its target.

use relive_host::layout::{SHADOW_BELOW, is_low};

use crate::decode::Insn;
use crate::emit::{AHEAD_BYTES, CALL_BYTES, JMP_SLOT_BYTES};
use crate::exit::{Exit, ExitKind};
use crate::marks::Undo;
use crate::unit::{Flow, Unit};

const BELOW: i32 = SHADOW_BELOW as i32;

/// Whether a call is paired.
pub(super) fn is_paired_call(unit: &Unit<'_>, insn: &Insn) -> bool {
    unit.pairs && !unit.step && is_low(insn.next())
}

/// Whether a return expects a paired call.
pub(super) fn is_paired_return(unit: &Unit<'_>, insn: &Insn) -> bool {
    is_paired_call(unit, insn) && insn.iced.op_count() == 0
}

/// A direct call.
pub(super) fn call(unit: &mut Unit<'_>, insn: &Insn) -> Flow {
    unit.push_return(insn, Undo::Exact);
    unit.asm.add_rsp(8 - BELOW);
    unit.asm.keep_whole(CALL_BYTES);
    let mut exit = Exit::new(
        ExitKind::LinkCalled,
        unit.frag,
        insn.iced.near_branch_target(),
    );
    exit.site = unit.asm.here() + 1;
    let stub = unit.exits.add(exit, |stub| stub.add_rsp(BELOW));
    unit.mark(insn, Undo::Called);
    unit.asm.call(stub);
    unit.mark(insn, Undo::Landing);
    landing(unit, insn)
}

/// An indirect call with its target in rcx.
pub(super) fn call_by_table(unit: &mut Unit<'_>, insn: &Insn) -> Flow {
    unit.push_return(insn, Undo::Rcx);
    unit.asm.add_rsp(8 - BELOW);
    unit.asm.keep_whole(CALL_BYTES + AHEAD_BYTES);
    unit.mark(insn, Undo::CalledByTable);
    // Calls over the jump that it returns to.
    unit.asm.call(unit.asm.here() + CALL_BYTES + AHEAD_BYTES);
    unit.mark(insn, Undo::Landing);
    let back = unit.asm.jump_ahead();
    unit.asm.add_rsp(BELOW);
    unit.asm.keep_whole(JMP_SLOT_BYTES);
    unit.mark(insn, Undo::JumpMiss);
    unit.asm.jmp_table(0);
    unit.asm.land(back);
    landing(unit, insn)
}

/// A return.
pub(super) fn ret(unit: &mut Unit<'_>, insn: &Insn) -> Flow {
    unit.asm.spill_rcx();
    unit.mark(insn, Undo::Exact);
    unit.asm.pop_rcx();
    unit.asm.store_return_pc(insn.pc() as u32);
    unit.asm.add_rsp(-BELOW - 8);
    unit.asm.keep_whole(1);
    unit.mark(insn, Undo::Return);
    unit.asm.ret();
    Flow::End
}

/// The landing of the paired call `insn`, with the guest's return address in rcx.
fn landing(unit: &mut Unit<'_>, insn: &Insn) -> Flow {
    let next = insn.next() as i32;
    unit.asm.add_rsp(BELOW);
    if unit.misled.is_some_and(|m| !m.contains_key(&insn.next())) {
        unit.asm.expect_rcx(next);
        unit.mark_misled(insn);
    } else {
        let exit = Exit::new(ExitKind::ReturnLost, unit.frag, insn.next());
        let stub = unit.exits.add(exit, |stub| stub.add_rcx(next));
        unit.asm.add_rcx(-next);
        unit.asm.jmp_unless_zero(stub);
    }
    unit.asm.restore_rcx();
    Flow::Continue
}
