//! Indirect jumps, calls and returns: guest rcx is spilled, the target goes to rcx, and a jump
//! through the branch table leads to the target's landing or, on a miss, to the host. Branches in
//! high code, and those that were seen to lead there, use the hashed table.

use super::{memory, pairs};
use crate::decode::{Insn, is_legacy_prefix};
use crate::emit::{JMP_SLOT_BYTES, RCX};
use crate::exit::{Exit, ExitKind};
use crate::hashed;
use crate::marks::Undo;
use crate::unit::{Flow, Unit};

pub(super) fn jmp(unit: &mut Unit<'_>, insn: &Insn) -> Flow {
    load_target(unit, insn);
    go(unit, insn, ExitKind::StepJump);
    Flow::End
}

pub(super) fn call(unit: &mut Unit<'_>, insn: &Insn) -> Flow {
    // The target first: its operand may use rsp.
    load_target(unit, insn);
    if pairs::is_paired_call(unit, insn) && !unit.is_hashed(insn) {
        return pairs::call_by_table(unit, insn);
    }
    unit.push_return(insn, Undo::Rcx);
    go(unit, insn, ExitKind::StepJump);
    Flow::End
}

pub(super) fn ret(unit: &mut Unit<'_>, insn: &Insn) -> Flow {
    if pairs::is_paired_return(unit, insn) && !unit.is_hashed(insn) {
        return pairs::ret(unit, insn);
    }
    unit.asm.spill_rcx();
    unit.mark(insn, Undo::Exact);
    unit.asm.pop_rcx();
    if insn.iced.op_count() == 1 {
        unit.asm.add_rsp(i32::from(insn.iced.immediate16()));
    }
    go(unit, insn, ExitKind::StepReturn);
    Flow::End
}

fn go(unit: &mut Unit<'_>, insn: &Insn, step: ExitKind) {
    if unit.step {
        let mut exit = Exit::new(step, unit.frag, insn.pc());
        exit.len = insn.bytes().len() as u8;
        unit.leave(exit);
        return;
    }
    if unit.is_hashed(insn) {
        let site = unit
            .exits
            .add_inline(Exit::new(ExitKind::Site, unit.frag, insn.pc()), 0);
        unit.asm.hash_target(site);
        unit.asm.keep_whole(JMP_SLOT_BYTES);
        unit.asm
            .jmp_slot(hashed::base(step == ExitKind::StepReturn) as u32);
        return;
    }
    let (undo, adjust) = if step == ExitKind::StepReturn {
        (Undo::ReturnMiss, -8)
    } else {
        (Undo::JumpMiss, 0)
    };
    unit.asm.keep_whole(JMP_SLOT_BYTES);
    unit.mark(insn, undo);
    unit.asm.jmp_table(adjust);
}

/// Spills rcx and moves the branch's operand into it.
fn load_target(unit: &mut Unit<'_>, insn: &Insn) {
    unit.asm.spill_rcx();
    let (bytes, at) = as_load_of_rcx(insn);
    if insn.is_rip_relative() {
        let target = insn.iced.memory_displacement64();
        // rcx is free: it can hold the address itself.
        unit.mark(insn, Undo::Exact);
        if !memory::patched(unit, &bytes, at, target, insn) {
            unit.marks.pop();
            unit.asm.mov_imm64(RCX, target);
            unit.mark(insn, Undo::Rcx);
            memory::based(unit, &bytes, at, RCX);
        }
        return;
    }
    if insn.iced.op0_register() == iced_x86::Register::RCX {
        return;
    }
    unit.mark(insn, Undo::Exact);
    unit.asm.bytes(&bytes);
}

/// The bytes of `mov rcx, operand` for a branch through `operand`, and the offset of the ModRM
/// byte.
fn as_load_of_rcx(insn: &Insn) -> (Vec<u8>, usize) {
    let old = insn.bytes();
    let prefixes = old.iter().take_while(|b| is_legacy_prefix(**b)).count();
    // Segment and address size stay; bnd, notrack and operand size have no effect on a load.
    let mut new: Vec<u8> = old[..prefixes]
        .iter()
        .copied()
        .filter(|b| matches!(b, 0x64 | 0x67))
        .collect();
    let rest = &old[prefixes..];
    let (rex, rest) = if rest[0] & 0xf0 == 0x40 {
        (rest[0] & 0x43, &rest[1..])
    } else {
        (0x40, rest)
    };
    debug_assert_eq!(rest[0], 0xff);
    new.push(rex | 0x48);
    new.push(0x8b);
    let at = new.len();
    new.push(rest[1] & 0xc7 | RCX << 3);
    new.extend_from_slice(&rest[2..]);
    (new, at)
}
