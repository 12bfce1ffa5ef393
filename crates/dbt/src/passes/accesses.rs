//! A pass of the tests: it counts the copied instructions that access memory, before and behind each, in
//! two words at a fixed address. It must never change anything else.

use iced_x86::OpKind;

use super::pass::Pass;
use crate::classify::Class;
use crate::decode::Insn;
use crate::emit::RCX;
use crate::unit::{Flow, Unit};

/// Address of the two words: in the last page of the tests' low code, which no test reads.
pub(super) const COUNTS: u32 = 0x41_f000;
/// Most bytes around one instruction.
const BYTES: u32 = 96;

/// The pass.
pub(super) struct Accesses {
    pub(super) on: bool,
}

impl Pass for Accesses {
    fn name(&self) -> &'static str {
        "accesses"
    }

    fn is_on(&self, _step: bool) -> bool {
        self.on
    }

    fn key(&self) -> Option<u64> {
        Some(COUNTS.into())
    }

    fn around_bytes(&self) -> u32 {
        BYTES
    }

    fn before(&self, unit: &mut Unit<'_>, insn: &Insn) -> Flow {
        if is_counted(insn) {
            count(unit, insn.pc(), COUNTS);
        }
        Flow::Continue
    }

    fn after(&self, unit: &mut Unit<'_>, insn: &Insn) {
        if is_counted(insn) {
            count(unit, insn.next(), COUNTS + 8);
        }
    }
}

/// Whether an instruction is counted.
pub(super) fn is_counted(insn: &Insn) -> bool {
    let mut operands = (0..insn.iced.op_count()).map(|i| insn.iced.op_kind(i));
    insn.class == Class::Copy
        && (insn.iced.is_string_instruction() || operands.any(|kind| kind == OpKind::Memory))
}

/// Counts at `pc`, with flags where they are dead.
fn count(unit: &mut Unit<'_>, pc: u64, at: u32) {
    let dead = unit.dead_flags(pc).all();
    let asm = &mut *unit.asm;
    if dead {
        asm.bytes(&[0x48, 0x83, 0x04, 0x25]); // add qword ptr [at], 1
        asm.bytes(&at.to_le_bytes());
        asm.bytes(&[1]);
        return;
    }
    asm.spill_rcx();
    asm.bytes(&[0x48, 0x8b, 0x0c, 0x25]); // mov rcx, [at]
    asm.bytes(&at.to_le_bytes());
    asm.lea_rcx(Some(RCX), None, 1);
    asm.bytes(&[0x48, 0x89, 0x0c, 0x25]); // mov [at], rcx
    asm.bytes(&at.to_le_bytes());
    asm.restore_rcx();
}
