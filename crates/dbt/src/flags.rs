//! The arithmetic flags that are dead at a guest address: certainly overwritten before they can be
//! read.
//!
//! The answer is a function of guest code alone, never of fragments or options: where flags are
//! dead the translator may lose them, and a stopped thread shows zeros in their place, in record
//! and replay alike. A fragment that loses flags, or tells which are dead, depends on the code that
//! was looked at.
//!
//! Direct branches are followed, conditional ones to both sides, where the code cannot be written
//! ([`Code::lasting`]): only a system call changes it, so that a thread between here and there has
//! stopped before, with zeros for dead flags. Code that can be written is scanned along a straight
//! line only.
//!
//! Deadness is computed flag by flag, and the reach is counted along each path by itself. So
//! deadness persists: a flag dead at one instruction and not written by it is dead at the next one
//! too, and no lost value can ever be seen in between.

use iced_x86::{Instruction, Mnemonic, OpKind, RflagsBits};
use relive_host::GuestAddr;

use crate::classify::Class;
use crate::code::{Code, Window};
use crate::decode::{Decoded, Insn};

/// CF, PF, AF, ZF, SF and OF in RFLAGS.
pub(crate) const ARITHMETIC: u16 = 0x8d5;

/// Most instructions scanned along one path.
const REACH: u32 = 24;

/// Most branches followed along one path.
const HOPS: u32 = 3;

/// iced's flag bits and the processor's.
const BITS: [(u32, u16); 6] = [
    (RflagsBits::CF, 1),
    (RflagsBits::PF, 1 << 2),
    (RflagsBits::AF, 1 << 4),
    (RflagsBits::ZF, 1 << 6),
    (RflagsBits::SF, 1 << 7),
    (RflagsBits::OF, 1 << 11),
];

/// Instructions that write flags with any operands. AF after a logic instruction is called
/// undefined, but all processors clear it.
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

/// Dead flags, as bits of RFLAGS: those that may be lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeadFlags(pub(crate) u16);

impl DeadFlags {
    /// Whether all flags may be lost.
    pub(crate) fn all(self) -> bool {
        self.0 == ARITHMETIC
    }

    /// Whether all but CF, the flags that a decrement changes, may be lost.
    pub(crate) fn all_but_carry(self) -> bool {
        self.0 | 1 == ARITHMETIC
    }
}

/// The result of a look ahead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dead {
    pub(crate) flags: DeadFlags,
    /// The ranges of bytes that the answer depends on.
    pub(crate) spans: Vec<(u64, u64)>,
}

/// The arithmetic flags, as bits of RFLAGS, that are certainly overwritten before they can
/// be read by the code at `pc`.
#[must_use]
pub fn dead_flags_at(code: &dyn Code, pc: GuestAddr) -> u64 {
    u64::from(scan(code, pc.0).flags.0)
}

/// Whether all six arithmetic flags are dead at `pc`.
#[must_use]
pub fn flags_dead_at(code: &dyn Code, pc: GuestAddr) -> bool {
    scan(code, pc.0).flags.all()
}

/// The dead ones at `pc` among the flags that are set.
pub(crate) fn dead_among(code: &dyn Code, pc: u64, set: u64) -> u64 {
    // Flags that are not set need no look ahead.
    look(code, pc, ARITHMETIC & !(set as u16)).flags.0.into()
}

/// Looks ahead from `pc`.
pub(crate) fn scan(code: &dyn Code, pc: u64) -> Dead {
    look(code, pc, 0)
}

/// Looks ahead from `pc` for other flags than those `seen`.
fn look(code: &dyn Code, pc: u64, seen: u16) -> Dead {
    let mut look = Look {
        code,
        window: Window::new(code),
        insn: Insn::new(),
        spans: Vec::new(),
    };
    let mask = look.along(pc, seen, REACH, HOPS);
    Dead {
        flags: DeadFlags(mask),
        spans: look.spans,
    }
}

struct Look<'c> {
    code: &'c dyn Code,
    window: Window<'c>,
    insn: Insn,
    spans: Vec<(u64, u64)>,
}

impl Look<'_> {
    /// The flags that are overwritten on all paths from `at` on, within `reach` instructions
    /// and `hops` branches, before they are read; without those `seen` before.
    fn along(&mut self, mut at: u64, mut seen: u16, mut reach: u32, mut hops: u32) -> u16 {
        let (mut start, mut dead) = (at, 0);
        while reach > 0 && seen != ARITHMETIC {
            reach -= 1;
            let insn = &mut self.insn;
            match insn.decode(&mut self.window, at) {
                Decoded::Insn => at = insn.next(),
                Decoded::Undefined => {
                    at = at.wrapping_add(15);
                    break;
                }
                // Once there is code the answer may be another one.
                Decoded::Truncated { addr } => {
                    at = addr.wrapping_add(1);
                    break;
                }
            }
            seen |= map(insn.iced.rflags_read());
            if insn.class == Class::Copy {
                let killed = kills(&insn.iced) & !seen;
                dead |= killed;
                seen |= killed;
                continue;
            }
            let Some(target) = self.followed(hops) else {
                break;
            };
            hops -= 1;
            let forks = matches!(self.insn.class, Class::Jcc | Class::Loop);
            self.note(start, at);
            if forks {
                let taken = self.along(target, seen, reach, hops);
                if taken == 0 {
                    return dead;
                }
                return dead | taken & self.along(at, seen, reach, hops);
            }
            (start, at) = (target, target);
        }
        self.note(start, at);
        dead
    }

    /// The target of the branch just decoded, if it is to be followed.
    fn followed(&mut self, hops: u32) -> Option<u64> {
        let insn = &self.insn;
        let direct = matches!(
            insn.class,
            Class::Jmp | Class::Call | Class::Jcc | Class::Loop
        );
        if hops == 0 || !direct || insn.is_16_bit_branch() {
            return None;
        }
        let (pc, target) = (insn.pc(), insn.iced.near_branch_target());
        if !self.code.lasting(GuestAddr(pc)) {
            return None;
        }
        if !self.code.lasting(GuestAddr(target)) {
            // It may be so later.
            self.note(target, target.wrapping_add(1));
            return None;
        }
        Some(target)
    }

    fn note(&mut self, start: u64, end: u64) {
        match self.spans.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ if start < end => self.spans.push((start, end)),
            _ => {}
        }
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

    /// Code that can be written, or cannot.
    struct Bytes(&'static [u8], bool);
    impl Code for Bytes {
        fn lasting(&self, _pc: GuestAddr) -> bool {
            self.1
        }

        fn fetch(&self, pc: GuestAddr, buf: &mut [u8; 16]) -> usize {
            let rest = self.0.get(pc.0 as usize - 0x1000..).unwrap_or_default();
            let n = rest.len().min(16);
            buf[..n].copy_from_slice(&rest[..n]);
            n
        }
    }

    fn at(bytes: &'static [u8]) -> u64 {
        dead_flags_at(&Bytes(bytes, false), GuestAddr(0x1000))
    }

    /// The same in code that cannot be written.
    fn followed(bytes: &'static [u8]) -> u64 {
        let code = Bytes(bytes, true);
        let all = dead_flags_at(&code, GuestAddr(0x1000));
        for set in [0, 1, 0x40, 0x95, 0x8d5] {
            assert_eq!(dead_among(&code, 0x1000, set | 0x202), all & set);
        }
        all
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
    fn branches_are_followed_where_code_lasts() {
        assert_eq!(followed(b"\xeb\x01\x9c\x31\xc0"), ALL); // jmp over pushf; xor
        assert_eq!(followed(b"\xe8\x01\x00\x00\x00\x9c\x31\xc0"), ALL); // call over pushf
        assert_eq!(followed(b"\x74\x00\x31\xc0"), ALL & !0x40); // je; xor
        // jrcxz to the second; xor eax, eax; xor eax, eax
        assert_eq!(followed(b"\xe3\x02\x31\xc0\x31\xc0"), ALL);
        // jrcxz to pushf: the flags are read on one side
        assert_eq!(followed(b"\xe3\x02\x31\xc0\x9c"), 0);
        // jrcxz to ret, whose target is unknown
        assert_eq!(followed(b"\xe3\x02\x31\xc0\xc3"), 0);
        // A loop without end, and one that writes flags.
        assert_eq!(followed(b"\xeb\xfe"), 0);
        assert_eq!(followed(b"\x90\xff\xc0\x75\xfb\xc3"), ALL & !1);
        assert_eq!(followed(b"\x66\xe9\x00\x00\x31\xc0"), 0); // jmp with 16 bits
    }

    /// The property that lets the translator lose a flag at one place and a stop find it dead at
    /// the next.
    #[test]
    fn a_dead_flag_stays_dead_until_it_is_written() {
        let mut random = relive_sched::Rng::new(1);
        let mut byte = || random.word() as usize;
        let parts: [&[u8]; 12] = [
            b"\x90",         // nop
            b"\x31\xc0",     // xor eax, eax
            b"\xff\xc0",     // inc eax
            b"\xd3\xe0",     // shl eax, cl
            b"\x0f\x94\xc0", // sete al
            b"\x11\xc0",     // adc eax, eax
            b"\x74\x03",     // je
            b"\xeb\x02",     // jmp
            b"\xe3\x04",     // jrcxz
            b"\x72\xf8",     // jb, back
            b"\x89\xc8",     // mov eax, ecx
            b"\xc3",         // ret
        ];
        for _ in 0..2000 {
            let mut code = Vec::new();
            for _ in 0..40 {
                code.extend_from_slice(parts[byte() % parts.len()]);
            }
            let code = Bytes(code.leak(), true);
            let mut insn = Insn::new();
            for pc in 0x1000..0x1000 + code.0.len() as u64 {
                let dead = scan(&code, pc).flags.0;
                let Decoded::Insn = insn.decode(&mut Window::new(&code), pc) else {
                    continue;
                };
                let kept = dead & !map(insn.iced.rflags_modified());
                let nexts = match insn.class {
                    Class::Copy => vec![insn.next()],
                    Class::Jmp => vec![insn.iced.near_branch_target()],
                    Class::Jcc | Class::Loop => vec![insn.next(), insn.iced.near_branch_target()],
                    _ => vec![],
                };
                for next in nexts {
                    assert_eq!(
                        kept & !scan(&code, next).flags.0,
                        0,
                        "{:x?} at {pc:#x}",
                        code.0
                    );
                }
            }
        }
    }

    /// Code that cannot be written, followed by code that can.
    struct Partly(Bytes);
    impl Code for Partly {
        fn lasting(&self, pc: GuestAddr) -> bool {
            pc.0 < 0x1004
        }

        fn fetch(&self, pc: GuestAddr, buf: &mut [u8; 16]) -> usize {
            self.0.fetch(pc, buf)
        }
    }

    #[test]
    fn a_target_that_is_not_followed_is_looked_at_all_the_same() {
        let code = Partly(Bytes(b"\x90\xeb\x05\x90\x90\x90\x90\x90\x31\xc0", true));
        let dead = scan(&code, 0x1000);
        assert_eq!(dead.flags, DeadFlags(0));
        assert_eq!(dead.spans, [(0x1008, 0x1009), (0x1000, 0x1003)]);
    }

    #[test]
    fn the_ranges_cover_what_was_looked_at() {
        let spans = |bytes, lasting| scan(&Bytes(bytes, lasting), 0x1000).spans;
        assert_eq!(
            spans(b"\x90\x90\x31\xc0\x90\x90", false),
            [(0x1000, 0x1004)]
        );
        assert_eq!(spans(b"\x90\x48", true), [(0x1000, 0x1003)]);
        assert_eq!(
            spans(b"\xeb\x01\x9c\x31\xc0", true),
            [(0x1000, 0x1002), (0x1003, 0x1005)]
        );
    }
}
