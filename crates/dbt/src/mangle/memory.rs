//! Copied instructions, their RIP-relative operands, and those in the GS segment.

use iced_x86::{InstructionInfoFactory, Register};
use relive_host::context::{Reg, off};

use crate::classify::gpr_number;
use crate::decode::{Insn, is_legacy_prefix};
use crate::emit::RCX;
use crate::marks::Undo;
use crate::unit::{Flow, Unit};

/// The state around a copied instruction.
#[derive(Clone, Copy)]
pub(crate) enum Around {
    Plain,
    /// It has been counted as an ordered one, and this register is spilled.
    Ordered {
        object: Option<u8>,
    },
}

impl Around {
    /// The register that it must leave alone.
    fn object(self) -> Option<u8> {
        match self {
            Self::Plain => None,
            Self::Ordered { object } => object,
        }
    }

    /// How to recover from a fault, with this scratch register spilled.
    fn undo(self, scratch: Option<u8>) -> Undo {
        match (self, scratch) {
            (Self::Ordered { object }, scratch) => Undo::Ordered { object, scratch },
            (Self::Plain, None) => Undo::Exact,
            (Self::Plain, Some(scratch)) => Undo::Scratch(scratch),
        }
    }
}

/// Copies an instruction.
pub(crate) fn copy(unit: &mut Unit<'_>, insn: &Insn, around: Around) {
    if !insn.uses_gs() {
        copy_as_is(unit, insn, around);
        return;
    }
    // GS is the host's: the instruction is executed with FS instead, which holds the guest's GS
    // base meanwhile. A fault in it leaves to the host, which takes both bases from the context.
    set_fs(unit, off::GUEST_GS);
    copy_as_is(unit, &insn.with_fs(), around);
    set_fs(unit, off::GUEST_FS);
}

/// The same with nothing around it.
pub(super) fn copy_plain(unit: &mut Unit<'_>, insn: &Insn) -> Flow {
    copy(unit, insn, Around::Plain);
    Flow::Continue
}

fn copy_as_is(unit: &mut Unit<'_>, insn: &Insn, around: Around) {
    if insn.is_repeated() {
        note_start(unit);
    }
    unit.mark(insn, around.undo(None));
    if !insn.is_rip_relative() {
        unit.asm.bytes(insn.bytes());
        return;
    }
    let target = insn.iced.memory_displacement64();
    if !patched(unit, insn.bytes(), insn.modrm(), target, insn) {
        unit.marks.pop();
        through_scratch(unit, insn, target, around);
    }
}

/// Stores the registers that a repeated string instruction counts with, so that its start is known
/// when it faults in the middle. Beside the cost of such an instruction that is nothing.
fn note_start(unit: &mut Unit<'_>) {
    for (i, reg) in [Reg::Rcx, Reg::Rsi, Reg::Rdi].into_iter().enumerate() {
        unit.asm.store(off::STRING_START + 8 * i as i32, reg as u8);
    }
}

fn set_fs(unit: &mut Unit<'_>, base: i32) {
    unit.asm.spill_rcx();
    unit.asm.load(RCX, base);
    unit.asm.bytes(&[0xf3, 0x48, 0x0f, 0xae, 0xd1]); // wrfsbase rcx
    unit.asm.restore_rcx();
}

/// Emits an instruction (`bytes`, ModRM at `at`) with its displacement changed so that it
/// addresses `target` from its new place; `false`, and nothing emitted, if that is too far.
pub(super) fn patched(
    unit: &mut Unit<'_>,
    bytes: &[u8],
    at: usize,
    target: u64,
    insn: &Insn,
) -> bool {
    let end = u64::from(unit.asm.here()) + bytes.len() as u64;
    let disp = target.wrapping_sub(end);
    let wraps_at_32 = insn.iced.memory_base() == Register::EIP;
    if !wraps_at_32 && disp as i32 as i64 as u64 != disp {
        return false;
    }
    unit.asm.bytes(&bytes[..=at]);
    unit.asm.bytes(&(disp as u32).to_le_bytes());
    unit.asm.bytes(&bytes[at + 5..]);
    true
}

/// Emits an instruction with `[base]` in place of its RIP-relative operand; `base` is one
/// of the lower eight registers and not rsp. With a 32-bit displacement of 0 the length
/// stays, and no prefix is needed that an 8-bit high register would forbid.
pub(super) fn based(unit: &mut Unit<'_>, bytes: &[u8], at: usize, base: u8) {
    let start = unit.asm.buf.len();
    unit.asm.bytes(bytes);
    let new = &mut unit.asm.buf[start..];
    new[at] = 0x80 | new[at] & 0x38 | base;
    new[at + 1..at + 5].fill(0);
    // A RIP-relative operand ignores the base extension bit, which may be set.
    let prefixes = bytes.iter().take_while(|b| is_legacy_prefix(**b)).count();
    match new[prefixes] {
        0x40..=0x4f => new[prefixes] &= !1,
        // VEX with three bytes, EVEX and XOP keep it inverted. (8f is also the opcode of `pop`,
        // followed by its ModRM byte.)
        0xc4 | 0x62 => new[prefixes + 1] |= 0x20,
        0x8f if at > prefixes + 1 => new[prefixes + 1] |= 0x20,
        _ => {}
    }
}

/// The slow way: the address in a register that the instruction does not use.
fn through_scratch(unit: &mut Unit<'_>, insn: &Insn, target: u64, around: Around) {
    const CANDIDATES: [u8; 6] = [3, 6, 7, 0, 2, 1];
    let scratch = unused_register(insn, &CANDIDATES, around.object());
    unit.asm.store(off::SPILL, scratch);
    unit.asm.mov_imm64(scratch, target);
    unit.mark(insn, around.undo(Some(scratch)));
    based(unit, insn.bytes(), insn.modrm(), scratch);
    unit.asm.load(scratch, off::SPILL);
}

/// The first of some general registers that `insn` neither reads nor writes, nor is `taken`.
pub(crate) fn unused_register(insn: &Insn, candidates: &[u8], taken: Option<u8>) -> u8 {
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(&insn.iced);
    let used = info
        .used_registers()
        .iter()
        .filter_map(|r| gpr_number(r.register()))
        .chain(taken)
        .fold(0u32, |m, r| m | 1 << r);
    let free = candidates.iter().find(|r| used & 1 << **r == 0);
    *free.unwrap_or_else(|| panic!("no register is free beside {}", insn.iced.code() as usize))
}
