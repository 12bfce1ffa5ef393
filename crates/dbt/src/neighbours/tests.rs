//! Which plain accesses are neighbours, by hand.

use super::*;
use crate::code::Window;
use crate::decode::Decoded;

const START: u64 = 0x10000;
const RULE: NeighbourRule = NeighbourRule::Closely;

/// Code at [`START`], which lasts or does not.
struct Bytes(Vec<u8>, bool);

impl Code for Bytes {
    fn fetch(&self, pc: GuestAddr, buf: &mut [u8; 16]) -> usize {
        let rest = self.0.get((pc.0 - START) as usize..).unwrap_or_default();
        let n = rest.len().min(16);
        buf[..n].copy_from_slice(&rest[..n]);
        n
    }

    fn lasting(&self, _pc: GuestAddr) -> bool {
        self.1
    }
}

/// `lock cmpxchg [rdi], ecx`, of a lock or anything else.
const LOCKS: [u8; 4] = [0xf0, 0x0f, 0xb1, 0x0f];
/// `lock xadd [rdi+64], rcx`.
const COUNTS: [u8; 6] = [0xf0, 0x48, 0x0f, 0xc1, 0x4f, 0x40];

/// Pieces of code, each so many bytes from the start, and no operation between them.
fn code(pieces: &[(usize, &[u8])]) -> Bytes {
    let mut bytes = vec![0x90; 2 * PAGE as usize];
    for (at, piece) in pieces {
        bytes[*at..at + piece.len()].copy_from_slice(piece);
    }
    Bytes(bytes, true)
}

fn is_one(code: &Bytes, at: usize) -> bool {
    let mut insn = Insn::new();
    let decoded = insn.decode(&mut Window::new(code), START + at as u64);
    assert!(matches!(decoded, Decoded::Insn));
    Neighbours::default().has(code, &insn, RULE, |_, _| ())
}

/// Whether `insn` at 0x400 is one beside `other` at `at`.
fn beside(insn: &[u8], at: usize, other: &[u8]) -> bool {
    is_one(&code(&[(0x400, insn), (at, other)]), 0x400)
}

#[test]
fn words_near_atomic_instructions_are_neighbours() {
    // mov rax, [rbx+24]
    let load = [0x48, 0x8b, 0x43, 0x18];
    assert!(beside(&load, 0x420, &LOCKS));
    assert!(beside(&load, 0x3e0, &LOCKS));
    assert!(beside(&load, 0x5f0, &LOCKS));
    assert!(!beside(&load, 0x610, &LOCKS));
    assert!(!beside(&load, 0x2f0, &LOCKS));
    assert!(!beside(&load, 0x420, &[0x90]));
}

#[test]
fn operands_of_the_same_form_may_be_farther_away() {
    // mov rax, [rbx+64]
    let load = [0x48, 0x8b, 0x43, 0x40];
    assert!(beside(&load, 0x7f0, &COUNTS));
    assert!(!beside(&load, 0x910, &COUNTS));
    // Not in another page.
    let there = code(&[(0xff0, &load), (0x1010, &COUNTS)]);
    assert!(!is_one(&there, 0xff0));
}

#[test]
fn data_behind_a_lock_is_not_one() {
    // mov [rdi+8], eax: an owner. By another register it is not known to be the lock's.
    assert!(!beside(&[0x89, 0x47, 0x08], 0x420, &LOCKS));
    assert!(beside(&[0x89, 0x43, 0x08], 0x420, &LOCKS));
    // mov [rdi+24], eax, which is too far away.
    assert!(beside(&[0x89, 0x47, 0x18], 0x420, &LOCKS));
    // The word is no lock: lock xadd [rdi], rcx.
    let wide = [0xf0, 0x48, 0x0f, 0xc1, 0x0f];
    assert!(beside(&[0x89, 0x47, 0x08], 0x420, &wide));
    // There is another one: lock cmpxchg [rdi+12], ecx.
    let two = code(&[
        (0x400, &[0x89, 0x47, 0x08]),
        (0x420, &LOCKS),
        (0x440, &[0xf0, 0x0f, 0xb1, 0x4f, 0x0c]),
    ]);
    assert!(is_one(&two, 0x400));
}

#[test]
fn a_word_whose_address_is_taken_is_one() {
    // mov [rdi+12], eax, and lea rsi, [rdi+12]: somebody waits for it, or changes it by atomic instructions.
    let store: (usize, &[u8]) = (0x400, &[0x89, 0x47, 0x0c]);
    let takes = |at| code(&[store, (0x420, &LOCKS), (at, &[0x48, 0x8d, 0x77, 0x0c])]);
    assert!(is_one(&takes(0x440), 0x400));
    assert!(is_one(&takes(0x3c0), 0x400));
    assert!(!is_one(&takes(0x640), 0x400), "far away");
    // lea rsi, [rdi+8]
    let other = code(&[store, (0x420, &LOCKS), (0x440, &[0x48, 0x8d, 0x77, 8])]);
    assert!(!is_one(&other, 0x400));
}

#[test]
fn a_register_that_is_set_between_leads_elsewhere() {
    // mov rax, [rdi+8]; mov rdi, rbx
    let load: (usize, &[u8]) = (0x400, &[0x48, 0x8b, 0x47, 0x08]);
    let sets = |at, lock| code(&[load, (lock, &LOCKS), (at, &[0x48, 0x89, 0xdf])]);
    assert!(is_one(&sets(0x410, 0x420), 0x400));
    assert!(is_one(&sets(0x3f0, 0x3e0), 0x400));
    assert!(!is_one(&sets(0x430, 0x420), 0x400));
    assert!(!is_one(&sets(0x3d0, 0x3e0), 0x400));
    // By the rule of older recordings it is the lock's all the same.
    let mut insn = Insn::new();
    let between = sets(0x410, 0x420);
    insn.decode(&mut Window::new(&between), START + 0x400);
    let older = NeighbourRule::ByRegister;
    assert!(!Neighbours::default().has(&between, &insn, older, |_, _| ()));
    // mov rdi, [rdi+8]: the load itself sets it.
    let follows = [0x48, 0x8b, 0x7f, 0x08];
    assert!(beside(&follows, 0x420, &LOCKS));
    assert!(!beside(&follows, 0x3e0, &LOCKS));
}

#[test]
fn settings_at_fixed_addresses_are_none() {
    // mov eax, [rip+0x1000]; mov [rip+..], ecx to the same address.
    let load = [0x8b, 0x05, 0, 0x10, 0, 0];
    assert!(!beside(&load, 0x420, &LOCKS));
    let both = code(&[
        (0x400, &load),
        (0x420, &LOCKS),
        (0x430, &[0x89, 0x0d, 0xd0, 0x0f, 0, 0]),
    ]);
    assert!(is_one(&both, 0x400));
}

#[test]
fn stacks_and_changing_code_have_none() {
    // mov rax, [rsp+24]; mov eax, fs:[rbx]
    assert!(!beside(&[0x48, 0x8b, 0x44, 0x24, 0x18], 0x420, &LOCKS));
    assert!(!beside(&[0x64, 0x8b, 0x03], 0x420, &LOCKS));
    let mut changing = code(&[(0x400, &[0x48, 0x8b, 0x43, 0x18]), (0x420, &LOCKS)]);
    assert!(is_one(&changing, 0x400));
    changing.1 = false;
    assert!(!is_one(&changing, 0x400));
}

#[test]
fn bytes_within_instructions_are_no_atomic_ones() {
    // mov eax, 0x0fb10ff0: looks like a lock from its second byte on.
    let load = [0x48, 0x8b, 0x43, 0x18];
    assert!(!beside(&load, 0x420, &[0xb8, 0xf0, 0x0f, 0xb1, 0x0f]));
}

#[test]
fn the_bytes_that_decide_are_told() {
    let code = code(&[(0x400, &[0x48, 0x8b, 0x43, 0x18])]);
    let mut insn = Insn::new();
    insn.decode(&mut Window::new(&code), START + 0x400);
    let mut told = Vec::new();
    Neighbours::default().has(&code, &insn, RULE, |from, to| told.push((from, to)));
    assert_eq!(told, [(START, START + 0x900 + INSN)]);
}

#[test]
fn changed_code_is_looked_at_anew() {
    let load = [0x48, 0x8b, 0x43, 0x18];
    let (with, without) = (
        code(&[(0x400, &load), (0x420, &LOCKS)]),
        code(&[(0x400, &load)]),
    );
    let mut insn = Insn::new();
    insn.decode(&mut Window::new(&with), START + 0x400);
    for end in [1, 1 << 30] {
        let mut known = Neighbours::default();
        assert!(known.has(&with, &insn, RULE, |_, _| ()));
        assert!(known.has(&without, &insn, RULE, |_, _| ()));
        known.forget(START + 0x500, START + 0x500 + end);
        assert!(!known.has(&without, &insn, RULE, |_, _| ()));
    }
}
