//! Which arithmetic flags are dead at a guest address: certainly overwritten before they
//! can be read.
//!
//! The answer is a function of guest code alone, never of fragments or options: where flags
//! are dead the translator may lose them, and whoever looks at a stopped thread sees zeros
//! in their place, in record and replay alike. It looks along straight code only, so that
//! it depends on one range of bytes, which is part of what a fragment depends on.
//!
//! Deadness is taken flag by flag. That makes it hold all the way: a flag dead at one
//! instruction and not written by it is dead at the next one too, so that no lost value
//! can ever be seen in between.

use iced_x86::{Instruction, Mnemonic, OpKind, RflagsBits};
use relive_host::GuestAddr;

use crate::classify::Class;
use crate::code::{Code, Window};
use crate::decode::{Decoded, Insn};

/// CF, PF, AF, ZF, SF and OF in RFLAGS.
pub(crate) const ARITHMETIC: u16 = 0x8d5;

/// Instructions looked at.
const REACH: usize = 16;

/// iced's flag bits and the processor's.
const BITS: [(u32, u16); 6] = [
    (RflagsBits::CF, 1),
    (RflagsBits::PF, 1 << 2),
    (RflagsBits::AF, 1 << 4),
    (RflagsBits::ZF, 1 << 6),
    (RflagsBits::SF, 1 << 7),
    (RflagsBits::OF, 1 << 11),
];

/// Instructions that write flags whatever their operands are. What a logic instruction
/// leaves in AF is called undefined, but all processors clear it.
const LOGIC: [Mnemonic; 4] = [Mnemonic::And, Mnemonic::Or, Mnemonic::Xor, Mnemonic::Test];
const WRITERS: [Mnemonic; 20] = [
    Mnemonic::Add,
    Mnemonic::Sub,
    Mnemonic::Cmp,
    Mnemonic::Neg,
    Mnemonic::Inc,
    Mnemonic::Dec,
    Mnemonic::Adc,
    Mnemonic::Sbb,
    Mnemonic::Xadd,
    Mnemonic::Cmpxchg,
    Mnemonic::Popcnt,
    Mnemonic::Comiss,
    Mnemonic::Comisd,
    Mnemonic::Ucomiss,
    Mnemonic::Ucomisd,
    Mnemonic::Vcomiss,
    Mnemonic::Vcomisd,
    Mnemonic::Vucomiss,
    Mnemonic::Vucomisd,
    Mnemonic::Ptest,
];
/// These leave the flags alone if the masked count is 0.
const SHIFTS: [Mnemonic; 3] = [Mnemonic::Shl, Mnemonic::Shr, Mnemonic::Sar];

/// What a look ahead found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dead {
    /// The dead flags, as in RFLAGS.
    pub(crate) mask: u16,
    /// End of the bytes that the answer depends on.
    pub(crate) end: u64,
}

impl Dead {
    pub(crate) fn all(self) -> bool {
        self.mask == ARITHMETIC
    }
}

/// The arithmetic flags, as bits of RFLAGS, that are certainly overwritten before they can
/// be read by the code at `pc`.
#[must_use]
pub fn dead_flags_at(code: &dyn Code, pc: GuestAddr) -> u64 {
    u64::from(scan(code, pc.0).mask)
}

/// Whether all six arithmetic flags are dead at `pc`.
#[must_use]
pub fn flags_dead_at(code: &dyn Code, pc: GuestAddr) -> bool {
    scan(code, pc.0).all()
}

/// Looks ahead from `pc`.
pub(crate) fn scan(code: &dyn Code, pc: u64) -> Dead {
    let mut window = Window::new(code);
    let mut insn = Insn::new();
    let (mut dead, mut seen, mut at) = (0, 0, pc);
    for _ in 0..REACH {
        match insn.decode(&mut window, at) {
            Decoded::Insn => at = insn.next(),
            Decoded::Undefined | Decoded::Skipped => {
                at = at.wrapping_add(15);
                break;
            }
            Decoded::Truncated { addr } => {
                at = addr;
                break;
            }
        }
        if insn.class != Class::Copy {
            break;
        }
        seen |= map(insn.iced.rflags_read());
        let killed = kills(&insn.iced) & !seen;
        dead |= killed;
        seen |= killed;
        if seen == ARITHMETIC {
            break;
        }
    }
    Dead {
        mask: dead,
        end: at,
    }
}

fn map(bits: u32) -> u16 {
    BITS.iter()
        .filter(|(b, _)| bits & b != 0)
        .fold(0, |m, (_, f)| m | f)
}

/// Flags certainly overwritten with values that depend on nothing but defined inputs.
fn kills(insn: &Instruction) -> u16 {
    let written = || map(insn.rflags_written() | insn.rflags_cleared() | insn.rflags_set());
    let mnemonic = insn.mnemonic();
    if LOGIC.contains(&mnemonic) {
        written() | 1 << 4
    } else if WRITERS.contains(&mnemonic)
        || SHIFTS.contains(&mnemonic) && insn.op1_kind() == OpKind::Immediate8
    {
        written()
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Bytes(&'static [u8]);
    impl Code for Bytes {
        fn fetch(&self, pc: GuestAddr, buf: &mut [u8; 16]) -> usize {
            let rest = self.0.get(pc.0 as usize - 0x1000..).unwrap_or_default();
            let n = rest.len().min(16);
            buf[..n].copy_from_slice(&rest[..n]);
            n
        }
    }

    fn at(bytes: &'static [u8]) -> u64 {
        dead_flags_at(&Bytes(bytes), GuestAddr(0x1000))
    }

    const ALL: u64 = ARITHMETIC as u64;

    #[test]
    fn whole_writers_kill_all() {
        assert_eq!(at(b"\x31\xc0"), ALL); // xor eax, eax
        assert_eq!(at(b"\x48\x89\xd8\x48\x39\xc3"), ALL); // mov rax, rbx; cmp rbx, rax
        assert_eq!(at(b"\x85\xc0"), ALL); // test eax, eax
    }

    #[test]
    fn readers_come_first() {
        assert_eq!(at(b"\x11\xc0"), ALL & !1); // adc eax, eax
        assert_eq!(at(b"\x0f\x44\xc1\x39\xc1"), ALL & !0x40); // cmove eax, ecx; cmp ecx, eax
        assert_eq!(at(b"\x9c\x31\xc0"), 0); // pushf; xor eax, eax
        assert_eq!(at(b"\x9f\x31\xc0"), ALL & !0xd5); // lahf; xor eax, eax
    }

    #[test]
    fn partial_writers_kill_their_part() {
        assert_eq!(at(b"\xff\xc0\xc3"), ALL & !1); // inc eax; ret
        assert_eq!(at(b"\xff\xc0\x39\xc1"), ALL); // inc eax; cmp ecx, eax
    }

    #[test]
    fn conditional_writers_kill_nothing() {
        assert_eq!(at(b"\xd3\xe0\xc3"), 0); // shl eax, cl; ret
        assert_eq!(at(b"\xc1\xe0\x20\xc3"), 0); // shl eax, 32; ret
        assert_eq!(at(b"\xc1\xe0\x05\xc3"), ALL & !0x810); // shl eax, 5: OF, AF undefined
        assert_eq!(at(b"\xd1\xe0\xc3"), ALL & !0x10); // shl eax, 1: AF undefined
        assert_eq!(at(b"\xf3\xa6\xc3"), 0); // repe cmpsb; ret
        assert_eq!(at(b"\xf7\xe1\xc3"), 0); // mul ecx; ret
    }

    #[test]
    fn the_path_ends_at_control_flow_and_at_the_end_of_code() {
        assert_eq!(at(b"\x74\x00\x31\xc0"), 0); // je; xor
        assert_eq!(at(b"\xc3"), 0);
        assert_eq!(at(b"\x0f\x05\x31\xc0"), 0); // syscall; xor
        assert_eq!(at(b"\xeb\x00\x31\xc0"), 0); // jmp; xor
        assert_eq!(at(b"\x90"), 0);
        assert_eq!(at(b"\x06\x31\xc0"), 0); // undefined; xor
        assert_eq!(at(b""), 0);
    }

    #[test]
    fn the_range_covers_what_was_looked_at() {
        let code = Bytes(b"\x90\x90\x31\xc0\x90\x90");
        assert_eq!(scan(&code, 0x1000).end, 0x1004);
        assert_eq!(scan(&Bytes(b"\x90\x48"), 0x1000).end, 0x1002);
    }
}
