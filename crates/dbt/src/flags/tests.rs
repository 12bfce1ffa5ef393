//! Tests of the look for dead flags.

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
fn rotations_through_carry_read_it_with_any_count() {
    assert_eq!(at(b"\xc0\xd0\x09\x31\xc0"), ALL & !1); // rcl al, 9; xor eax, eax
    assert_eq!(at(b"\xc0\xd8\x1b\x31\xc0"), ALL & !1); // rcr al, 27; xor eax, eax
    assert_eq!(at(b"\x66\xc1\xd0\x11\x31\xc0"), ALL & !1); // rcl ax, 17; xor eax, eax
    assert_eq!(at(b"\xd3\xd0\x31\xc0"), ALL & !1); // rcl eax, cl; xor eax, eax
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
