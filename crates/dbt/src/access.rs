//! The memory that one guest instruction is about to read and write, exactly, from the
//! registers of a stopped thread.

use iced_x86::{
    Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register, UsedMemory,
};
use relive_host::{Context, Reg, cpu};

use crate::classify::{Class, gpr_number};
use crate::code::{Code, Window, is_written};
use crate::decode::{Decoded, Insn};
use crate::xsave;

/// Size assumed for an access whose size depends on the processor's state (XRSTOR): the largest
/// area that a guest can have.
const UNSIZED: u64 = relive_host::context::XSAVE_BYTES as u64;

/// One access of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub len: u64,
    /// Whether it reads.
    pub reads: bool,
    /// Whether it writes, or may write: conditional and masked stores are taken as a whole.
    pub writes: bool,
}

/// Whether an instruction is carried out as one indivisible access to memory. Those that store to memory in the same way
/// without a prefix for it (CMPccXADD, RAO-INT) are not taken for such.
pub(crate) fn is_atomic(iced: &Instruction) -> bool {
    let mut operands = (0..iced.op_count()).map(|i| iced.op_kind(i));
    (iced.has_lock_prefix() || iced.mnemonic() == Mnemonic::Xchg)
        && operands.any(|kind| kind == OpKind::Memory)
}

/// Whether an access reads, and whether it writes.
pub(crate) fn access_kinds(access: OpAccess) -> (bool, bool) {
    match access {
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write | OpAccess::CondWrite => (false, true),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
        OpAccess::None | OpAccess::NoMemAccess => (false, false),
    }
}

/// The memory operands by which a copied instruction reads or writes.
pub(crate) fn used_memory(insn: &Insn) -> Vec<UsedMemory> {
    if matches!(insn.class, Class::Syscall | Class::Unsupported(_)) {
        return Vec::new();
    }
    let mut factory = InstructionInfoFactory::new();
    let all = factory.info(&insn.iced).used_memory().iter();
    let accessed = all.filter(|memory| access_kinds(memory.access()) != (false, false));
    accessed.copied().collect()
}

/// The accesses that the instruction at `ctx.rip` will make; none where no instruction is.
#[must_use]
pub fn accesses(code: &dyn Code, ctx: &Context) -> Vec<Access> {
    let mut insn = Insn::new();
    let decoded = insn.decode(&mut Window::new(code), ctx.rip);
    if !matches!(decoded, Decoded::Insn) || insn.iced.code() == iced_x86::Code::Syscall {
        return Vec::new();
    }
    let iced = &insn.iced;
    let mut factory = InstructionInfoFactory::new();
    let info = factory.info(iced);
    let mut found = Vec::new();
    for memory in info.used_memory() {
        let (reads, writes) = access_kinds(memory.access());
        if !reads && !writes {
            continue;
        }
        let mut len = match memory.memory_size().size() as u64 {
            0 => UNSIZED,
            n => n,
        };
        if memory.vsib_size() != 0 {
            lanes(iced, ctx, |addr| {
                found.push(Access {
                    addr,
                    len: iced.memory_size().element_size().max(1) as u64,
                    reads,
                    writes,
                });
            });
            continue;
        }
        let mut addr = memory.displacement();
        for (r, scale) in [(memory.base(), 1), (memory.index(), memory.scale() as u64)] {
            addr = addr.wrapping_add(value(ctx, r).wrapping_mul(scale));
        }
        if memory.base().is_gpr32() || memory.index().is_gpr32() {
            addr &= 0xffff_ffff;
        }
        addr = addr.wrapping_add(match memory.segment() {
            Register::FS => ctx.guest_fs,
            Register::GS => ctx.guest_gs,
            _ => 0,
        });
        if insn.is_repeated() {
            let item = string_item(iced);
            let count = ctx.reg(Reg::Rcx);
            if count == 0 {
                continue;
            }
            len = item.saturating_mul(count);
            if ctx.rflags & 1 << 10 != 0 {
                addr = addr.wrapping_sub(item.wrapping_mul(count - 1));
            }
        }
        if writes && let Some(parts) = xsave::writes(iced, ctx) {
            found.extend(parts.into_iter().map(|(offset, len)| Access {
                addr: addr.wrapping_add(offset),
                len,
                // The header's old value is part of the new one.
                reads: reads && offset == xsave::HEADER,
                writes,
            }));
            continue;
        }
        found.push(Access {
            addr,
            len,
            reads,
            writes,
        });
    }
    found
}

/// The bytes of the instruction at `pc` as an access that reads them, where the program may write to them without a call.
#[must_use]
pub fn fetch(code: &dyn Code, pc: u64) -> Option<Access> {
    /// Bytes of the longest instruction: mostly all of them last, and nothing need be decoded.
    const LONGEST: u64 = 15;
    if !is_written(code, pc, pc.wrapping_add(LONGEST)) {
        return None;
    }
    let mut insn = Insn::new();
    let decoded = insn.decode(&mut Window::new(code), pc);
    let is_one = matches!(decoded, Decoded::Insn) && is_written(code, pc, insn.next());
    is_one.then(|| Access {
        addr: pc,
        len: insn.next().wrapping_sub(pc),
        reads: true,
        writes: false,
    })
}

/// Whether a repeated string instruction is at `pc`.
#[must_use]
pub fn repeats(code: &dyn Code, pc: u64) -> bool {
    let mut insn = Insn::new();
    let decoded = insn.decode(&mut Window::new(code), pc);
    matches!(decoded, Decoded::Insn) && insn.is_repeated()
}

/// Bytes that one repetition of a string instruction moves.
pub(crate) fn string_item(iced: &Instruction) -> u64 {
    use iced_x86::Mnemonic as M;
    match iced.mnemonic() {
        M::Movsw | M::Stosw | M::Lodsw | M::Cmpsw | M::Scasw => 2,
        M::Movsd | M::Stosd | M::Lodsd | M::Cmpsd | M::Scasd => 4,
        M::Movsq | M::Stosq | M::Lodsq | M::Cmpsq | M::Scasq => 8,
        _ => 1,
    }
}

/// A register of an address. RIP is part of the displacement already.
fn value(ctx: &Context, r: Register) -> u64 {
    let full = gpr_number(r).map_or(0, |n| ctx.gpr[usize::from(n)]);
    match r.size() {
        1 => full & 0xff,
        2 => full & 0xffff,
        4 => full & 0xffff_ffff,
        _ => full,
    }
}

/// Component and offset of byte `at` of vector register `n` (Intel SDM vol. 1, 13.4 and 13.5). The
/// offsets of extended components depend on the processor: AMD's leave no room for components that
/// they lack.
fn lane_place(ranges: &[(usize, usize); 8], n: usize, at: usize) -> (usize, usize) {
    match (n, at) {
        (0..16, 0..16) => (1, 160 + 16 * n + at),
        (0..16, 16..32) => (2, ranges[2].0 + 16 * n + at - 16),
        (0..16, _) => (6, ranges[6].0 + 32 * n + at - 32),
        _ => (7, ranges[7].0 + 64 * (n - 16) + at),
    }
}

/// The addresses of a gather's or scatter's lanes, masked ones too.
fn lanes(iced: &Instruction, ctx: &Context, mut each: impl FnMut(u64)) {
    let Some(operand) = (0..iced.op_count()).find(|&i| iced.op_kind(i) == iced_x86::OpKind::Memory)
    else {
        return;
    };
    let vector = iced.memory_index();
    let wide_index = iced.is_vsib64();
    let lanes = vector.size() / if wide_index { 8 } else { 4 };
    let n = vector.number();
    for lane in 0..lanes {
        let addr = iced.virtual_address(operand, lane, |r, element, size| {
            Some(match r {
                Register::FS => ctx.guest_fs,
                Register::GS => ctx.guest_gs,
                r if r.is_gpr() => value(ctx, r),
                r if r.is_vector_register() => vector_lane(ctx, n, element * size, size),
                _ => 0,
            })
        });
        addr.into_iter().for_each(&mut each);
    }
}

/// `size` bytes at `at` of vector register `n`, out of the standard XSAVE area.
fn vector_lane(ctx: &Context, n: usize, at: usize, size: usize) -> u64 {
    let (component, offset) = lane_place(&cpu::xsave_layout().ranges, n, at);
    let area = ctx.vectors();
    if area.xstate_bv() & 1 << component == 0 {
        return 0;
    }
    let mut bytes = [0; 8];
    bytes[..size].copy_from_slice(&area.0[offset..offset + size]);
    let value = u64::from_le_bytes(bytes);
    // A 32-bit index is sign-extended.
    if size == 4 {
        value as i32 as i64 as u64
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_lie_where_the_processor_has_them() {
        // Of Intel, and of AMD, whose area has no room for the bounds registers.
        for (high, upper) in [(1152, 1664), (896, 1408)] {
            let mut ranges = [(0, 0); 8];
            (ranges[2].0, ranges[6].0, ranges[7].0) = (576, high, upper);
            assert_eq!(lane_place(&ranges, 3, 8), (1, 160 + 3 * 16 + 8));
            assert_eq!(lane_place(&ranges, 3, 24), (2, 576 + 3 * 16 + 8));
            assert_eq!(lane_place(&ranges, 3, 40), (6, high + 3 * 32 + 8));
            assert_eq!(lane_place(&ranges, 19, 40), (7, upper + 3 * 64 + 40));
        }
    }
}
