//! The code that holds an object around an ordered instruction: its prologue, its epilogue, and the
//! call of the host's routine if the object is not the thread's own.
//!
//! The object's address stays in a register that the instruction does not use. rax and flags are
//! the guest's again before the instruction.

use relive_host::context::off;
use relive_host::order::{HELD, LAST, OP};

use super::line::Operand;
use crate::decode::Insn;
use crate::emit::{Asm, JCC_BYTES, JMP_BYTES, OLD_RSP, RAX, RSP};
use crate::flags::DeadFlags;
use crate::mangle::{self, Around};
use crate::unit::Unit;

/// Most bytes around an instruction, its stub included.
pub(super) const BYTES: u32 = 352;

/// Registers that may hold the object: neither rax, which the prologue uses, nor those that cannot
/// be a plain base. An instruction uses six at most.
const CANDIDATES: [u8; 10] = [3, 6, 7, 2, 1, 8, 9, 10, 11, 5];

const OBJECT_SLOT: i32 = off::ORDER_SPILL;
const RAX_SLOT: i32 = off::ORDER_SPILL + 8;

/// Length of a load or store of the context.
const SLOT_BYTES: u32 = 9;
/// Length of [`slow`].
const STUB_BYTES: u32 = 3 * SLOT_BYTES + 8 + JMP_BYTES;
/// Length of a comparison of eax with the context.
const CMP_BYTES: u32 = 8;
const NOT_EQUAL: u8 = 5;

/// Emits the instruction.
pub(super) fn around(unit: &mut Unit<'_>, insn: &Insn, dead: DeadFlags) {
    let object = mangle::unused_register(insn, &CANDIDATES, None);
    prologue(unit, &Operand::of(insn), object, dead.all());
    let around = Around::Ordered {
        object: Some(object),
    };
    mangle::copy(unit, insn, around);
    epilogue(unit.asm, object);
}

fn prologue(unit: &mut Unit<'_>, operand: &Operand, object: u8, dead: bool) {
    let asm = &mut *unit.asm;
    asm.store(OBJECT_SLOT, object);
    asm.store(RAX_SLOT, RAX);
    operand.begin(asm, object);
    if !dead {
        asm.bytes(&[0x9f, 0x0f, 0x90, 0xc0]); // lahf; seto al
        asm.store(off::ORDER_FLAGS, RAX);
    }
    operand.finish(asm, object);
    asm.store(off::ORDERING, object);
    asm.bytes(&[0xb8]); // mov eax, imm32
    asm.bytes(&HELD.to_le_bytes());
    based(asm, 0x40, 0x87, RAX, object, 0); // xchg [object], eax
    // The last thread, with the bit if it was held.
    based(asm, 0x40, 0x33, RAX, object, LAST); // xor eax, [object + LAST]
    asm.keep_whole(CMP_BYTES + JCC_BYTES);
    asm.gs(None, 0x3b, RAX, off::ORDER_ID); // cmp eax, gs:[ORDER_ID]
    let back = asm.here() + JCC_BYTES;
    let stub = unit.exits.add_code(STUB_BYTES, |stub| slow(stub, back));
    asm.jcc(NOT_EQUAL, stub);
    asm.load(RAX, off::OPS);
    asm.bytes(&[0x48, 0x83, 0xc0, 1]); // add rax, 1
    asm.store(off::OPS, RAX);
    based(asm, 0x48, 0x89, RAX, object, OP); // mov [object + OP], rax
    if !dead {
        asm.load(RAX, off::ORDER_FLAGS);
        asm.bytes(&[0x04, 0x7f, 0x9e]); // add al, 0x7f; sahf
    }
    asm.load(RAX, RAX_SLOT);
}

/// Calls the host's routine, which takes the object.
fn slow(stub: &mut Asm, back: u32) {
    stub.begin_host_call(off::ORDER_FN);
    stub.load(RSP, OLD_RSP);
    stub.jmp(back);
}

/// Frees the object. No flag changes.
fn epilogue(asm: &mut Asm, object: u8) {
    based(asm, 0x40, 0xc7, 0, object, 0); // mov dword [object], 0
    asm.bytes(&[0; 4]);
    asm.store_imm(off::ORDERING, 0);
    asm.load(object, OBJECT_SLOT);
}

/// An operation on `[base + disp]`; `rex` without the bits of the registers.
fn based(asm: &mut Asm, rex: u8, opcode: u8, reg: u8, base: u8, disp: u8) {
    asm.bytes(&[rex | (reg >> 3) << 2 | base >> 3, opcode]);
    asm.bytes(&[0x40 | (reg & 7) << 3 | base & 7, disp]);
}
