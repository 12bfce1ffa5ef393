//! The object of the line that an ordered instruction accesses: its address, computed from the
//! operand without touching it. It must agree with [`relive_host::order::object_of`].

use iced_x86::{Mnemonic, OpKind, Register};
use relive_host::context::off;
use relive_host::layout::OBJECTS;
use relive_host::order::{FACTOR, HASH_SHIFT, LINE_SHIFT, Object};

use crate::classify::gpr_number;
use crate::decode::Insn;
use crate::emit::{Asm, RAX};

/// Slot of a bit's number, which may be in the register that flags are saved by.
const BIT: i32 = off::SPILL + 8;

/// An operand in memory.
pub(super) struct Operand {
    base: Option<u8>,
    index: Option<(u8, u8)>,
    displacement: u64,
    /// The address has 32 bits.
    narrow: bool,
    /// Offset in the context of the base of its segment.
    segment: Option<i32>,
    bit: Option<Bit>,
}

/// The number of a bit in a register: the operand is only where bits are counted from.
struct Bit {
    reg: u8,
    /// log2 of the bytes of the access.
    size: u8,
}

impl Operand {
    pub(super) fn of(insn: &Insn) -> Self {
        let iced = &insn.iced;
        let (base, index) = (iced.memory_base(), iced.memory_index());
        Self {
            base: gpr_number(base),
            index: gpr_number(index).map(|r| (r, iced.memory_index_scale().trailing_zeros() as u8)),
            displacement: iced.memory_displacement64(),
            narrow: base.is_gpr32() || index.is_gpr32() || base == Register::EIP,
            segment: match iced.memory_segment() {
                Register::FS => Some(off::GUEST_FS),
                Register::GS => Some(off::GUEST_GS),
                _ => None,
            },
            bit: bit(insn),
        }
    }

    /// Computes the plain part of the address into `to`. No flag changes.
    pub(super) fn begin(&self, asm: &mut Asm, to: u8) {
        if let Some(bit) = &self.bit {
            asm.store(BIT, bit.reg);
        }
        if self.base.is_none() && self.index.is_none() {
            asm.mov_imm64(to, self.displacement);
            return;
        }
        if self.narrow {
            asm.bytes(&[0x67]);
        }
        asm.lea(to, self.base, self.index, self.displacement as i32);
    }

    /// Makes the address of the object of it. Changes flags and rax.
    pub(super) fn finish(&self, asm: &mut Asm, to: u8) {
        if let Some(bit) = &self.bit {
            bit.add(asm, to);
            if self.narrow {
                wide(asm, false, &[0x89], to, to); // mov to32, to32
            }
        }
        if let Some(base) = self.segment {
            asm.gs(Some(0x48 | (to >> 3) << 2), 0x03, to, base); // add to, gs:[base]
        }
        const ENTRY_SHIFT: u8 = size_of::<Object>().trailing_zeros() as u8;
        wide(asm, true, &[0xc1], 5, to); // shr to, imm8
        asm.bytes(&[LINE_SHIFT as u8]);
        wide(asm, false, &[0x69], to, to); // imul to32, to32, imm32
        asm.bytes(&FACTOR.to_le_bytes());
        wide(asm, false, &[0xc1], 5, to); // shr to32, imm8
        asm.bytes(&[HASH_SHIFT as u8]);
        wide(asm, false, &[0xc1], 4, to); // shl to32, imm8
        asm.bytes(&[ENTRY_SHIFT]);
        wide(asm, false, &[0x81], 0, to); // add to32, imm32
        asm.bytes(&(OBJECTS as u32).to_le_bytes());
    }
}

impl Bit {
    /// Adds the distance of the access from the operand to `to`.
    fn add(&self, asm: &mut Asm, to: u8) {
        let rex = Some(0x48);
        match self.size {
            1 => {
                asm.bytes(&[0x65, 0x48, 0x0f, 0xbf, 0x04, 0x25]); // movsx rax, word gs:[BIT]
                asm.bytes(&BIT.to_le_bytes());
            }
            2 => asm.gs(rex, 0x63, RAX, BIT), // movsxd rax, dword gs:[BIT]
            _ => asm.load(RAX, BIT),
        }
        asm.bytes(&[0x48, 0xc1, 0xf8, 3 + self.size]); // sar rax, imm8
        asm.lea(to, Some(to), Some((RAX, self.size)), 0);
    }
}

/// The bit's number, of instructions that have it in a register.
fn bit(insn: &Insn) -> Option<Bit> {
    let iced = &insn.iced;
    let tests = matches!(
        iced.mnemonic(),
        Mnemonic::Bts | Mnemonic::Btr | Mnemonic::Btc
    );
    let reg = iced.op1_register();
    (tests && iced.op1_kind() == OpKind::Register)
        .then(|| gpr_number(reg))
        .flatten()
        .map(|number| Bit {
            reg: number,
            size: reg.size().trailing_zeros() as u8,
        })
}

/// An operation on a register, of 64 or 32 bits.
fn wide(asm: &mut Asm, is_wide: bool, opcode: &[u8], reg: u8, rm: u8) {
    asm.bytes(&[0x40 | u8::from(is_wide) << 3 | (reg >> 3) << 2 | rm >> 3]);
    asm.bytes(opcode);
    asm.bytes(&[0xc0 | (reg & 7) << 3 | rm & 7]);
}
