//! Translations taken over by a later translator.

use std::fs::File;
use std::io::Write;

use iced_x86::code_asm::*;
use relive_dbt::{Options, Translator};
use relive_host::GuestAddr;

use super::guest::*;

pub const NAME: &[u8] = b"a program";
pub const RANGE: (u64, u64) = (LOW_CODE, LOW_CODE + CODE_LEN);
/// Functions on another page, so many that the slots for them are worth keeping.
const F: u64 = LOW_CODE + 0x2000;
const FUNCTIONS: u64 = 9;

fn program(guest: &mut Guest) {
    let functions = (0..FUNCTIONS).map(|i| F + 16 * i);
    for f in functions.clone() {
        guest.assemble(f, |a| {
            a.add(rax, 3)?;
            a.ret()
        });
    }
    guest.assemble(LOW_CODE, |a| {
        let mut head = a.create_label();
        a.mov(r14d, 5)?;
        a.set_label(&mut head)?;
        a.call(F)?;
        for f in functions {
            a.mov(edx, f as u32)?;
            a.call(rdx)?;
        }
        a.cpuid()?;
        a.dec(r14d)?;
        a.jne(head)?;
        a.syscall()
    });
}

/// Runs the program to its system call and returns how many fragments that took.
fn run(guest: &mut Guest) -> u64 {
    let before = guest.t.stats().fragments;
    guest.ctx.rip = LOW_CODE;
    guest.ctx.gpr[0] = 0;
    loop {
        match guest.run() {
            relive_dbt::Stop::Instr { op, next, .. } => {
                let values = [guest.ctx.gpr[0], 0, 0, 0];
                op.apply(guest.ctx, next, values).expect("cpuid");
            }
            relive_dbt::Stop::Syscall { .. } => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(guest.ctx.gpr[0], 5 * (1 + FUNCTIONS) * 3);
    guest.t.stats().fragments - before
}

pub fn bytes_at(at: u64, out: &mut [u8]) -> bool {
    // SAFETY: the tests keep code in mapped guest memory only.
    out.copy_from_slice(unsafe { std::slice::from_raw_parts(at as *const u8, out.len()) });
    true
}

pub fn same(at: u64, bytes: &[u8]) -> bool {
    let mut seen = vec![0; bytes.len()];
    bytes_at(at, &mut seen) && seen == bytes
}

pub fn saved(t: &Translator) -> Vec<u8> {
    t.save(t.key(NAME), &[RANGE], &mut bytes_at)
        .expect("there is something to keep")
}

pub fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("written");
    file
}

/// The file that a first translator saves.
fn first(max_insns: u32) -> Vec<u8> {
    let mut guest = Guest::new(max_insns);
    program(&mut guest);
    assert!(run(&mut guest) > 3);
    saved(&guest.t)
}

#[test]
fn code_that_no_file_has_is_not_fresh() {
    let bytes = first(64);
    let mut guest = Guest::new(64);
    program(&mut guest);
    let key = guest.t.key(NAME);
    guest.t.load(key, &file(&bytes), true);
    guest.t.activate(RANGE.0, RANGE.1, &mut same);
    run(&mut guest);
    assert_eq!((guest.t.fresh(), guest.t.fresh_in(&[RANGE])), (0, 0));
    let elsewhere = F + 0x1000;
    guest.assemble(elsewhere, |a| a.syscall());
    guest.ctx.rip = elsewhere;
    guest.run();
    let without = [(RANGE.0, elsewhere)];
    assert_eq!((guest.t.fresh(), guest.t.fresh_in(&without)), (1, 0));
    assert_eq!(guest.t.fresh_in(&[RANGE]), 1);
}

#[test]
fn what_was_translated_is_not_translated_again() {
    for max_insns in [1, 64] {
        let bytes = first(max_insns);
        for checked in [false, true] {
            let mut guest = Guest::new(max_insns);
            program(&mut guest);
            let key = guest.t.key(NAME);
            assert!(guest.t.load(key, &file(&bytes), checked) > 3);
            guest.t.activate(RANGE.0, RANGE.1, &mut same);
            assert_eq!(run(&mut guest), 0);
            assert_eq!(run(&mut guest), 0);
            // Slots of the branch table come along (Linux 5.13).
            let stats = guest.t.stats();
            // A paired return that finds no shadow counts as one.
            let returns = u64::from(crate::PAIRS == relive_dbt::Pairs::Always);
            assert_eq!((stats.jump_misses, stats.return_misses), (0, returns));
            // A file saved again is as good.
            let again = saved(&guest.t);
            guest.t.flush().expect("flush");
            assert!(guest.t.load(key, &file(&again), true) > 3);
            guest.t.activate(RANGE.0, RANGE.1, &mut same);
            assert_eq!(run(&mut guest), 0);
        }
    }
}

#[test]
fn nothing_is_used_before_its_code_is_there() {
    let bytes = first(64);
    let mut guest = Guest::new(64);
    program(&mut guest);
    let key = guest.t.key(NAME);
    assert!(guest.t.load(key, &file(&bytes), false) > 3);
    assert!(run(&mut guest) > 3, "dormant fragments were used");
}

#[test]
fn other_code_in_the_same_place_is_translated() {
    let bytes = first(64);
    let mut guest = Guest::new(64);
    program(&mut guest);
    guest.assemble(F, |a| {
        a.add(rax, 1)?;
        a.add(rax, 2)?;
        a.ret()
    });
    let key = guest.t.key(NAME);
    assert!(guest.t.load(key, &file(&bytes), false) > 3);
    guest.t.activate(RANGE.0, RANGE.1, &mut same);
    assert!(run(&mut guest) > 3, "code was used that is not there");
}

#[test]
fn what_is_taken_over_can_be_invalidated() {
    let bytes = first(64);
    let mut guest = Guest::new(64);
    program(&mut guest);
    let key = guest.t.key(NAME);
    guest.t.load(key, &file(&bytes), false);
    guest.t.activate(RANGE.0, RANGE.1, &mut same);
    guest.assemble(F, |a| {
        a.add(rax, 1)?;
        a.add(rax, 2)?;
        a.ret()
    });
    guest.t.invalidate(GuestAddr(F), GuestAddr(F + 0x1000)).expect("the code can be changed");
    assert!(run(&mut guest) > 0);
}

/// A tick loses flags because of code behind a jump: that is taken over with the rest.
#[test]
fn code_behind_jumps_is_compared_and_watched() {
    let program = |guest: &mut Guest, behind: &[u8]| {
        guest.load(F, behind);
        guest.jump_with_flags(F);
    };
    let mut guest = Guest::new(64);
    program(&mut guest, &FLAGS_WRITER);
    assert_eq!(guest.flags_behind_jump(), 0);
    let bytes = saved(&guest.t);
    drop(guest);
    for changed_before in [false, true] {
        let mut guest = Guest::new(64);
        program(
            &mut guest,
            if changed_before {
                &FLAGS_READER
            } else {
                &FLAGS_WRITER
            },
        );
        let key = guest.t.key(NAME);
        assert!(guest.t.load(key, &file(&bytes), false) > 2);
        guest.t.activate(RANGE.0, RANGE.1, &mut same);
        if !changed_before {
            assert_eq!(guest.flags_behind_jump(), 0);
            assert_eq!(guest.t.stats().fragments, 0);
            guest.load(F, &FLAGS_READER);
            guest.t.invalidate(GuestAddr(F), GuestAddr(F + 4)).expect("the code can be changed");
        }
        assert_eq!(guest.flags_behind_jump(), 0x95, "flags were lost");
    }
}

#[test]
fn damaged_and_foreign_files_are_not_used() {
    let bytes = first(64);
    let mut guest = Guest::new(64);
    program(&mut guest);
    let key = guest.t.key(NAME);
    let mut refused = |bytes: &[u8], key| {
        assert_eq!(guest.t.load(key, &file(bytes), false), 0);
    };
    refused(&bytes, key ^ 1);
    refused(&bytes[..bytes.len() - 1], key);
    refused(&bytes[..100], key);
    refused(&[], key);
    for i in (0..bytes.len()).step_by(911).chain(0..152) {
        let mut damaged = bytes.clone();
        damaged[i] ^= 0x10;
        refused(&damaged, key);
    }
    drop(guest);
    let other = Guest::with(Options {
        max_insns: 7,
        ..Options::default()
    });
    assert_ne!(other.t.key(NAME), key);
    assert_ne!(other.t.key(b"another"), other.t.key(NAME));
}

/// Translations without breakpoints are of no use to a translator that has some.
#[test]
fn breakpoints_keep_everything_out() {
    let bytes = first(64);
    let elsewhere = || [LOW_CODE + CODE_LEN - 1].into();
    let mut guest = Guest::new(64);
    program(&mut guest);
    let key = guest.t.key(NAME);
    guest.t.set_breakpoints(elsewhere()).expect("the code can be changed");
    assert_eq!(guest.t.load(key, &file(&bytes), false), 0);
    guest.t.set_breakpoints([].into()).expect("the code can be changed");
    assert!(guest.t.load(key, &file(&bytes), false) > 3);
    guest.t.set_breakpoints(elsewhere()).expect("the code can be changed");
    guest.t.activate(RANGE.0, RANGE.1, &mut same);
    assert!(run(&mut guest) > 3);
}
