//! One decoded guest instruction, and the decoder loop's view of it.

use iced_x86::{Decoder, DecoderError, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use crate::classify::{Class, class_of_insn};
use crate::code::Window;

/// Bytes of an instruction, at most.
const LONGEST: usize = 15;
/// A privileged instruction.
const HLT: u8 = 0xf4;

/// A decoded guest instruction.
#[derive(Clone, Copy)]
pub(crate) struct Insn {
    pub(crate) iced: Instruction,
    pub(crate) class: Class,
    bytes: [u8; LONGEST],
    len: u8,
    modrm: u8,
}

/// The outcome of decoding at an address.
pub(crate) enum Decoded {
    /// `Insn` has been filled in.
    Insn,
    /// The bytes are no instruction.
    Undefined,
    /// The instruction goes on past executable memory.
    Truncated {
        /// The first missing byte.
        addr: u64,
    },
}

impl Insn {
    pub(crate) fn new() -> Self {
        Self {
            iced: Instruction::default(),
            class: Class::Copy,
            bytes: [0; LONGEST],
            len: 0,
            modrm: 0,
        }
    }

    pub(crate) fn pc(&self) -> u64 {
        self.iced.ip()
    }

    pub(crate) fn next(&self) -> u64 {
        self.iced.ip().wrapping_add(u64::from(self.len))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Offset of the ModRM byte of an instruction with a RIP-relative operand.
    pub(crate) fn modrm(&self) -> usize {
        usize::from(self.modrm)
    }

    /// Whether it addresses memory relative to RIP (or EIP).
    pub(crate) fn is_rip_relative(&self) -> bool {
        self.modrm != 0
    }

    /// Whether processors may make one operation of it and a conditional branch behind it, and it is
    /// copied as it is.
    pub(crate) fn fuses(&self) -> bool {
        let compares = matches!(self.iced.mnemonic(), Mnemonic::Cmp | Mnemonic::Test);
        let computes = matches!(
            self.iced.mnemonic(),
            Mnemonic::Add | Mnemonic::Sub | Mnemonic::And | Mnemonic::Inc | Mnemonic::Dec
        );
        let register = |n| self.iced.op_kind(n) == OpKind::Register;
        self.class == Class::Copy
            && (compares && (register(0) || register(1)) || computes && register(0))
            && !self.is_rip_relative()
            && !self.uses_gs()
    }

    /// Whether it has a GS prefix that takes effect.
    pub(crate) fn uses_gs(&self) -> bool {
        self.iced.segment_prefix() == Register::GS
    }

    /// Whether it is a string instruction that repeats itself.
    pub(crate) fn is_repeated(&self) -> bool {
        self.iced.is_string_instruction()
            && (self.iced.has_rep_prefix() || self.iced.has_repne_prefix())
    }

    /// The same instruction with FS in place of GS.
    pub(crate) fn with_fs(&self) -> Self {
        const PREFIXES: [u8; 2] = [0x64, 0x65];
        let mut bytes = self.bytes;
        let legacy = bytes.iter().take_while(|b| is_legacy_prefix(**b)).count();
        // The last of several counts.
        let segments = bytes[..legacy].iter_mut().filter(|b| PREFIXES.contains(b));
        segments.for_each(|b| *b = PREFIXES[0]);
        Self {
            iced: self.iced,
            class: self.class,
            bytes,
            len: self.len,
            modrm: self.modrm,
        }
    }

    /// Whether it is an operand size prefix that changes a near branch.
    pub(crate) fn is_16_bit_branch(&self) -> bool {
        let prefixes = self.bytes().iter().take_while(|b| is_legacy_prefix(**b));
        let (n, has_66) = prefixes.fold((0, false), |(n, has), b| (n + 1, has || *b == 0x66));
        has_66 && self.bytes[n] & 0xf8 != 0x48
    }

    /// Whether it is the direct branch that closes the loop which begins at `pc`.
    pub(crate) fn leads_back(&self, pc: u64) -> bool {
        matches!(self.class, Class::Jcc | Class::Jmp)
            && !self.is_16_bit_branch()
            && self.iced.near_branch_target() == pc
    }

    /// Decodes the instruction at `pc`.
    pub(crate) fn decode(&mut self, window: &mut Window<'_>, pc: u64) -> Decoded {
        let bytes = window.at(pc);
        let available = bytes.len().min(LONGEST);
        match self.decode_bytes(&bytes[..available], pc) {
            // It faults as a privileged one does (SDM volume 3, 6.15, #GP).
            Decoded::Undefined if is_too_long(bytes) => self.decode_bytes(&[HLT], pc),
            decoded => decoded,
        }
    }

    fn decode_bytes(&mut self, bytes: &[u8], pc: u64) -> Decoded {
        let mut decoder = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE);
        decoder.decode_out(&mut self.iced);
        if self.iced.is_invalid() {
            return match decoder.last_error() {
                DecoderError::NoMoreBytes => Decoded::Truncated {
                    addr: pc.wrapping_add(bytes.len() as u64),
                },
                _ => Decoded::Undefined,
            };
        }
        let len = self.iced.len();
        self.len = len as u8;
        self.bytes[..len].copy_from_slice(&bytes[..len]);
        self.modrm = 0;
        if self.iced.is_ip_rel_memory_operand() {
            let at = decoder
                .get_constant_offsets(&self.iced)
                .displacement_offset();
            self.modrm = (at - 1) as u8;
        }
        self.class = class_of_insn(&self.iced);
        Decoded::Insn
    }
}

/// Whether bytes that are no instruction would be one, if it might have more than [`LONGEST`]: prefixes that come again make it no
/// other one.
fn is_too_long(bytes: &[u8]) -> bool {
    let prefixes = bytes.iter().take_while(|b| is_legacy_prefix(**b)).count();
    let (prefixes, rest) = bytes.split_at(prefixes);
    let mut once: Vec<u8> = Vec::with_capacity(LONGEST);
    for prefix in prefixes {
        if !once.contains(prefix) {
            once.push(*prefix);
        }
    }
    let again = prefixes.len() - once.len();
    once.extend(rest.iter().take(LONGEST));
    let insn = Decoder::with_ip(64, &once, 0, DecoderOptions::NONE).decode();
    prefixes.len() >= LONGEST || !insn.is_invalid() && insn.len() + again > LONGEST
}

/// Prefixes that may stand before REX, VEX or the opcode.
pub(crate) fn is_legacy_prefix(byte: u8) -> bool {
    matches!(
        byte,
        0x26 | 0x2e | 0x36 | 0x3e | 0x64 | 0x65 | 0x66 | 0x67 | 0xf0 | 0xf2 | 0xf3
    )
}
