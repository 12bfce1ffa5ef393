//! The assembler: the few instruction forms that the translator makes itself, written into a buffer
//! whose place in the cache is known. It knows encodings and nothing else.

use relive_host::context::off;
use relive_host::layout::TABLE;
use relive_host::reading;

use crate::align::{LINE, nops, padding};

/// Code for one place in the cache, not yet copied there.
pub(crate) struct Asm {
    pub(crate) base: u32,
    pub(crate) buf: Vec<u8>,
    /// See [`crate::align`].
    pub(crate) block: u32,
}

/// Encoding number of rax.
pub(crate) const RAX: u8 = 0;
/// Encoding number of rcx.
pub(crate) const RCX: u8 = 1;
/// Encoding number of rsp.
pub(crate) const RSP: u8 = 4;

/// Slot of the guest's rsp during a call of a host routine.
pub(crate) const OLD_RSP: i32 = off::SPILL + 16;

/// First bytes of [`Asm::load`], for one of the lower eight registers.
pub(crate) const LOAD: [u8; 3] = [0x65, 0x48, 0x8b];

/// Length of [`Asm::exit`].
pub(crate) const EXIT_BYTES: u32 = 20;
/// Length of [`Asm::call`].
pub(crate) const CALL_BYTES: u32 = 5;
/// Length of [`Asm::jump_ahead`].
pub(crate) const AHEAD_BYTES: u32 = 2;

/// Length of [`Asm::store_imm`].
pub(crate) const STORE_IMM_BYTES: u32 = 13;

/// Length of [`Asm::add_lane`].
pub(crate) const ADD_LANE_BYTES: u32 = 10;
/// Length of [`Asm::jcc`].
pub(crate) const JCC_BYTES: u32 = 6;
/// Length of [`Asm::jmp`].
pub(crate) const JMP_BYTES: u32 = 5;
/// Length of [`Asm::jrcxz`].
pub(crate) const JRCXZ_BYTES: u32 = 2;
/// Length of [`Asm::loop_into_load`].
const LOOP_BYTES: u32 = 2;
/// Length of [`Asm::jmp_slot`].
pub(crate) const JMP_SLOT_BYTES: u32 = 7;
/// Length of [`Asm::cmp_rcx`].
pub(crate) const CMP_BYTES: u32 = 7;

impl Asm {
    pub(crate) fn new() -> Self {
        Self::in_blocks(LINE)
    }

    /// An assembler whose branches keep to blocks of this many bytes.
    pub(crate) fn in_blocks(block: u32) -> Self {
        Self {
            base: 0,
            buf: Vec::new(),
            block,
        }
    }

    /// Starts over at a cache address.
    pub(crate) fn start(&mut self, base: u32) {
        self.base = base;
        self.buf.clear();
    }

    /// The cache address of the next byte.
    pub(crate) fn here(&self) -> u32 {
        self.base + self.buf.len() as u32
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }

    /// Aligns the next `len` bytes, a branch and the instruction that processors fuse with it, to
    /// lie in one block.
    pub(crate) fn keep_whole(&mut self, len: u32) {
        let pad = padding(self.here(), len, self.block);
        self.buf.extend(nops(pad));
    }

    /// The same where some of these bytes have been emitted already, from `start` in the buffer on,
    /// and `len` more follow. Returns how far they were moved.
    pub(crate) fn keep_whole_from(&mut self, start: usize, len: u32) -> u32 {
        let emitted = (self.buf.len() - start) as u32;
        let pad = padding(self.base + start as u32, emitted + len, self.block);
        self.buf.splice(start..start, nops(pad));
        pad
    }

    fn imm32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    /// An operation on `gs:[offset]`: prefix, optional REX, opcode, `reg` field.
    pub(crate) fn gs(&mut self, rex: Option<u8>, opcode: u8, reg: u8, offset: i32) {
        self.buf.push(0x65);
        self.buf.extend(rex);
        self.bytes(&[opcode, 0x04 | (reg & 7) << 3, 0x25]);
        self.imm32(offset as u32);
    }

    /// `mov gs:[offset], reg`
    pub(crate) fn store(&mut self, offset: i32, reg: u8) {
        self.gs(Some(0x48 | (reg >> 3) << 2), 0x89, reg, offset);
    }

    /// `mov reg, gs:[offset]`
    pub(crate) fn load(&mut self, reg: u8, offset: i32) {
        self.gs(Some(0x48 | (reg >> 3) << 2), 0x8b, reg, offset);
    }

    pub(crate) fn spill_rcx(&mut self) {
        self.store(off::SPILL_RCX, RCX);
    }

    pub(crate) fn restore_rcx(&mut self) {
        self.load(RCX, off::SPILL_RCX);
    }

    /// `mov reg, imm64`
    pub(crate) fn mov_imm64(&mut self, reg: u8, value: u64) {
        self.bytes(&[0x48 | reg >> 3, 0xb8 | reg & 7]);
        self.bytes(&value.to_le_bytes());
    }

    /// `lea rcx, [rcx + disp]`
    pub(crate) fn add_rcx(&mut self, disp: i32) {
        self.bytes(&[0x48, 0x8d, 0x89]);
        self.imm32(disp as u32);
    }

    /// `lea rcx, [base + index * 2^scale + disp]`; the index is not rsp.
    pub(crate) fn lea_rcx(&mut self, base: Option<u8>, index: Option<(u8, u8)>, disp: i32) {
        self.lea(RCX, base, index, disp);
    }

    /// The same into any register.
    pub(crate) fn lea(&mut self, to: u8, base: Option<u8>, index: Option<(u8, u8)>, disp: i32) {
        const NO_INDEX: (u8, u8) = (4, 0);
        const NO_BASE: u8 = 5;
        let (index, scale) = index.unwrap_or(NO_INDEX);
        // Without a base the form is [index * 2^scale + disp32], mod = 0.
        let (mode, base) = base.map_or((0, NO_BASE), |b| (0x80, b));
        let rex = 0x48 | (to >> 3) << 2 | (index >> 3) << 1 | base >> 3;
        self.bytes(&[rex, 0x8d, mode | (to & 7) << 3 | 4]);
        self.buf.push(scale << 6 | (index & 7) << 3 | base & 7);
        self.imm32(disp as u32);
    }

    /// `movzx ecx, word gs:[offset]`
    pub(crate) fn load_word_rcx(&mut self, offset: i32) {
        self.bytes(&[0x65, 0x0f, 0xb7, 0x0c, 0x25]);
        self.imm32(offset as u32);
    }

    /// Loads 2, 4 or 8 bytes at `[rcx + at]` into rcx, zero-extended.
    pub(crate) fn load_filter_rcx(&mut self, at: i32, bytes: u32) {
        match bytes {
            2 => self.bytes(&[0x0f, 0xb7, 0x89]),
            4 => self.bytes(&[0x8b, 0x89]),
            _ => self.bytes(&[0x48, 0x8b, 0x89]),
        }
        self.imm32(at as u32);
    }

    /// `lea rsp, [rsp + disp]`
    pub(crate) fn add_rsp(&mut self, disp: i32) {
        self.bytes(&[0x48, 0x8d, 0xa4, 0x24]);
        self.imm32(disp as u32);
    }

    /// `cmp rcx, imm`
    pub(crate) fn cmp_rcx(&mut self, value: u32) {
        self.bytes(&[0x48, 0x81, 0xf9]);
        self.imm32(value);
    }

    /// `push imm32`, sign-extended
    pub(crate) fn push_imm(&mut self, value: u32) {
        self.buf.push(0x68);
        self.imm32(value);
    }

    /// `push qword [address]`
    pub(crate) fn push_at(&mut self, address: u32) {
        self.bytes(&[0xff, 0x34, 0x25]);
        self.imm32(address);
    }

    /// Stores rcx as target of branch `site` and hashes it into rcx: the lower 16 bits of its
    /// CRC-32C. No flag changes.
    pub(crate) fn hash_target(&mut self, site: u32) {
        self.store(off::TARGET, RCX);
        self.gs(None, 0xc7, 0, off::SITE);
        self.imm32(site);
        self.bytes(&[0xb9, 0, 0, 0, 0]); // mov ecx, 0
        self.bytes(&[0x65, 0xf2, 0x48, 0x0f, 0x38, 0xf1, 0x0c, 0x25]); // crc32 rcx, gs:[]
        self.imm32(off::TARGET as u32);
        self.bytes(&[0x0f, 0xb7, 0xc9]); // movzx ecx, cx
    }

    /// `lea rcx, [rcx + rdx]`
    pub(crate) fn add_rdx_to_rcx(&mut self) {
        self.bytes(&[0x48, 0x8d, 0x0c, 0x11]);
    }

    /// `jmp [rcx*8 + TABLE + adjust]`
    pub(crate) fn jmp_table(&mut self, adjust: i32) {
        self.jmp_slot((TABLE as i32 + adjust) as u32);
    }

    /// `jmp [rcx*8 + table]`
    pub(crate) fn jmp_slot(&mut self, table: u32) {
        self.bytes(&[0xff, 0x24, 0xcd]);
        self.imm32(table);
    }

    /// `dec qword gs:[lane]`, which leaves CF alone
    pub(crate) fn dec_lane(&mut self, lane: i32) {
        self.gs(Some(0x48), 0xff, 1, lane);
    }

    /// `sub qword gs:[lane], ticks`, of fewer than 128
    pub(crate) fn sub_lane(&mut self, lane: i32, ticks: u8) {
        self.gs(Some(0x48), 0x83, 5, lane);
        self.buf.push(ticks);
    }

    /// `add qword gs:[lane], ticks`, of fewer than 128
    pub(crate) fn add_lane(&mut self, lane: i32, ticks: u8) {
        self.gs(Some(0x48), 0x83, 0, lane);
        self.buf.push(ticks);
    }

    /// `call target`
    pub(crate) fn call(&mut self, target: u32) {
        self.buf.push(0xe8);
        self.rel32(target);
    }

    /// `ret`, of one byte
    pub(crate) fn ret(&mut self) {
        self.buf.push(0xc3);
    }

    /// `mov dword gs:[RETURN_PC], imm32`
    pub(crate) fn store_return_pc(&mut self, pc: u32) {
        self.gs(None, 0xc7, 0, off::RETURN_PC);
        self.imm32(pc);
    }

    /// `pop rcx`
    pub(crate) fn pop_rcx(&mut self) {
        self.buf.push(0x59);
    }

    /// `jmp target`
    pub(crate) fn jmp(&mut self, target: u32) {
        self.buf.push(0xe9);
        self.rel32(target);
    }

    /// `jcc target`, by the condition's encoding number
    pub(crate) fn jcc(&mut self, condition: u8, target: u32) {
        self.bytes(&[0x0f, 0x80 | condition]);
        self.rel32(target);
    }

    /// The same to code that is still to be emitted. [`Asm::lead`] with the returned place sets its target.
    pub(crate) fn jcc_ahead(&mut self, condition: u8) -> usize {
        self.jcc(condition, self.here());
        self.buf.len()
    }

    /// The target of a jump that [`Asm::jcc_ahead`] emitted.
    pub(crate) fn lead(&mut self, jump: usize, target: u32) {
        let rel = target.wrapping_sub(self.base + jump as u32);
        self.buf[jump - 4..jump].copy_from_slice(&rel.to_le_bytes());
    }

    /// `jrcxz target`, which must be near
    pub(crate) fn jrcxz(&mut self, target: u32) {
        let rel = i64::from(target) - i64::from(self.here() + 2);
        assert!(i8::try_from(rel).is_ok(), "jrcxz over {rel} bytes");
        self.bytes(&[0xe3, rel as u8]);
    }

    /// `loop`: decrements rcx, and unless that leaves 0 jumps behind the first byte of the
    /// following [`Asm::load`]. Without its prefix the load addresses the plain offset instead of
    /// the context: a fault, as no memory is mapped there.
    fn loop_into_load(&mut self) {
        self.bytes(&[0xe2, 1]);
    }

    /// Leaves rcx as 0 if it is `value`. Otherwise the [`Asm::load`] that must follow faults at its
    /// second byte, and rcx holds the difference.
    pub(crate) fn expect_rcx(&mut self, value: i32) {
        self.add_rcx(1 - value);
        self.keep_whole(LOOP_BYTES);
        self.loop_into_load();
    }

    /// Jumps unless rcx is 0.
    pub(crate) fn jmp_unless_zero(&mut self, target: u32) {
        self.keep_whole(JRCXZ_BYTES + JMP_BYTES);
        self.jrcxz(self.here() + JRCXZ_BYTES + JMP_BYTES);
        self.jmp(target);
    }

    /// A short jump of [`AHEAD_BYTES`]. [`Asm::land`] with the returned place sets its target.
    pub(crate) fn jump_ahead(&mut self) -> usize {
        self.bytes(&[0xeb, 0]);
        self.buf.len()
    }

    /// The same, taken under a condition (the low digit of the opcode).
    pub(crate) fn jump_ahead_if(&mut self, condition: u8) -> usize {
        self.bytes(&[0x70 | condition, 0]);
        self.buf.len()
    }

    /// The target of a jump that [`Asm::jump_ahead`] emitted.
    pub(crate) fn land(&mut self, skip: usize) {
        let rel = self.buf.len() - skip;
        assert!(rel < 128, "a short jump over {rel} bytes");
        self.buf[skip - 1] = rel as u8;
    }

    fn rel32(&mut self, target: u32) {
        let rel = target.wrapping_sub(self.here() + 4);
        self.imm32(rel);
    }

    /// Calls a host routine by way of `gs:[offset]`, on the host's stack. A load of rsp from
    /// [`OLD_RSP`] must follow.
    pub(crate) fn begin_host_call(&mut self, offset: i32) {
        self.store(OLD_RSP, RSP);
        self.load(RSP, off::HOST_RSP);
        self.gs(None, 0xff, 2, offset);
    }

    /// The same with a routine that may leave it to the host. An [`Asm::exit`] must follow: it is
    /// skipped unless the host has to act.
    pub(crate) fn call_host(&mut self, offset: i32) {
        self.begin_host_call(offset);
        let back = self.buf.len();
        self.load(RSP, OLD_RSP);
        let rest = self.buf.len() - back;
        self.bytes(&[0xeb, rest as u8 + EXIT_BYTES as u8]);
        debug_assert_eq!(self.buf.len() - back, reading::LEAVE as usize);
        self.load(RSP, OLD_RSP);
    }

    /// `mov qword gs:[offset], imm32`, which is not negative
    pub(crate) fn store_imm(&mut self, offset: i32, value: u32) {
        debug_assert!(i32::try_from(value).is_ok(), "{value:#x} is sign-extended");
        self.gs(Some(0x48), 0xc7, 0, offset);
        self.imm32(value);
    }

    /// Leaves to the host by exit `number`.
    pub(crate) fn exit(&mut self, number: u32) {
        self.gs(None, 0xc7, 0, off::EXIT);
        self.imm32(number);
        self.gs(None, 0xff, 4, off::EXIT_FN);
    }
}

#[cfg(test)]
mod tests;
