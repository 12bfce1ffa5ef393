//! Direct branches: linkable, and tick sites if they are backward branches or calls.

use super::pairs;
use crate::classify::Class;
use crate::decode::Insn;
use crate::emit::{JCC_BYTES, JMP_BYTES};
use crate::exit::{Exit, ExitKind};
use crate::marks::Undo;
use crate::unit::{Flow, Unit};

/// The opcode emitted for a direct branch.
#[derive(Clone, Copy)]
enum Opcode {
    Jmp,
    /// By the condition's encoding number.
    Jcc(u8),
}

pub(super) fn jcc(unit: &mut Unit<'_>, insn: &Insn) -> Flow {
    // iced numbers conditions from 1 on in the order of their encoding.
    let condition = insn.iced.condition_code() as u8 - 1;
    let ticked = is_backward(insn);
    link(
        unit,
        Opcode::Jcc(condition),
        insn.iced.near_branch_target(),
        ticked,
    );
    Flow::Continue
}

/// The branch that closes a loop of which another copy follows: only the way out is emitted.
pub(crate) fn leave_loop(unit: &mut Unit<'_>, insn: &Insn) {
    if insn.class == Class::Jcc {
        link(unit, Opcode::Jcc(otherwise(insn)), insn.next(), false);
    }
}

/// The same of a conditional branch, to code that is still to be emitted: see [`crate::emit::Asm::jcc_ahead`].
pub(crate) fn leave_loop_ahead(unit: &mut Unit<'_>, insn: &Insn) -> usize {
    keep_whole(unit, JCC_BYTES);
    unit.asm.jcc_ahead(otherwise(insn))
}

/// The encoding number of the opposite of a branch's condition.
fn otherwise(insn: &Insn) -> u8 {
    // iced numbers conditions from 1 on; the lowest bit of the encoding negates.
    (insn.iced.condition_code() as u8 - 1) ^ 1
}

/// loop, loope, loopne, jrcxz and jecxz exist with 8-bit displacements only: the copied
/// one jumps over a jump to the linkable branch.
pub(super) fn loop_(unit: &mut Unit<'_>, insn: &Insn) -> Flow {
    let (last, front) = insn.bytes().split_last().unwrap_or((&0, &[]));
    debug_assert_eq!(
        *last as i8 as i64 as u64,
        insn.iced.near_branch_target().wrapping_sub(insn.next())
    );
    unit.asm.bytes(front);
    unit.asm.bytes(&[2, 0xeb, 0]);
    let skip = unit.asm.buf.len();
    link(
        unit,
        Opcode::Jmp,
        insn.iced.near_branch_target(),
        is_backward(insn),
    );
    unit.asm.buf[skip - 1] = (unit.asm.buf.len() - skip) as u8;
    Flow::Continue
}

pub(super) fn jmp(unit: &mut Unit<'_>, insn: &Insn) -> Flow {
    link(
        unit,
        Opcode::Jmp,
        insn.iced.near_branch_target(),
        is_backward(insn),
    );
    Flow::End
}

pub(super) fn call(unit: &mut Unit<'_>, insn: &Insn) -> Flow {
    // A call of the next instruction serves to read its address; no return follows.
    if pairs::is_paired_call(unit, insn) && insn.iced.near_branch_target() != insn.next() {
        return pairs::call(unit, insn);
    }
    unit.push_return(insn, Undo::Exact);
    link(unit, Opcode::Jmp, insn.iced.near_branch_target(), true);
    Flow::End
}

/// Goes on at `pc`, which no branch leads to.
pub(crate) fn fall_through(unit: &mut Unit<'_>, pc: u64) {
    link(unit, Opcode::Jmp, pc, false);
}

/// Counts a tick and goes on at `pc`, which no branch leads to.
pub(super) fn tick(unit: &mut Unit<'_>, pc: u64) {
    link(unit, Opcode::Jmp, pc, true);
}

fn is_backward(insn: &Insn) -> bool {
    insn.iced.near_branch_target() <= insn.pc()
}

fn link(unit: &mut Unit<'_>, opcode: Opcode, target: u64, ticked: bool) {
    let kind = match (unit.step, ticked) {
        (false, false) => ExitKind::Link,
        (false, true) => ExitKind::LinkTicked,
        (true, false) => ExitKind::Step,
        (true, true) => ExitKind::StepTicked,
    };
    let (ahead, len) = match opcode {
        Opcode::Jmp => (1, JMP_BYTES),
        Opcode::Jcc(_) => (2, JCC_BYTES),
    };
    keep_whole(unit, len);
    let mut exit = Exit::new(kind, unit.frag, target);
    exit.site = unit.asm.here() + ahead;
    let stub = unit.exit(exit);
    match opcode {
        Opcode::Jmp => unit.asm.jmp(stub),
        Opcode::Jcc(condition) => unit.asm.jcc(condition, stub),
    }
}

/// Aligns a branch of `len` bytes that is emitted next, with the instruction before it where processors fuse them.
fn keep_whole(unit: &mut Unit<'_>, len: u32) {
    match unit.fused.take() {
        Some(start) if len == JCC_BYTES => {
            let moved = unit.asm.keep_whole_from(start, len);
            if let Some(mark) = unit.marks.last_mut() {
                mark.cache += moved as u16;
            }
        }
        _ => unit.asm.keep_whole(len),
    }
}
