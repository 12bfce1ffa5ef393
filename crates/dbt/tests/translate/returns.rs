//! Returns: to where the call was, to elsewhere, from strange stacks, and while code changes.

use iced_x86::code_asm::*;
use relive_dbt::{Options, Pairs, Stop};
use relive_host::GuestAddr;

use super::guest::*;

const F: u64 = LOW_CODE + 0x2000;

/// Calls of a recursion.
const DEEP: i32 = 3000;

/// The return address remains where the guest's return popped it, and nothing else is written
/// there.
#[test]
fn what_lies_above_the_stack_is_the_guests() {
    for max in [1, 64] {
        let mut guest = Guest::new(max);
        guest.load(F, b"\xc3");
        let code = guest.assemble(LOW_CODE, |a| {
            a.mov(edx, F as u32)?;
            a.call(F)?;
            a.call(rdx)?;
            a.syscall()
        });
        for round in 0..3 {
            guest.fill(STACK, &vec![0x5a; STACK_LEN as usize]);
            guest.ctx.rip = LOW_CODE;
            guest.expect_syscall();
            let behind = LOW_CODE + code.len() as u64 - 2;
            assert_eq!(guest.read_u64(TOP - 8), behind, "round {round}");
            let below = guest.read(STACK, TOP - 8 - STACK);
            assert!(below.iter().all(|b| *b == 0x5a), "round {round}");
            assert_eq!(guest.ctx.gpr[4], TOP);
        }
    }
}

/// A callee that changes its return address and leaves flags: the code behind the call overwrites
/// them, the code further on reads them.
#[test]
fn another_return_address_than_the_calls() {
    for loops in [false, true] {
        let mut guest = Guest::with(Options {
            loops,
            ..options(64)
        });
        elsewhere(&mut guest);
        // The landing is found to be reached by other branches once.
        let expected = u64::from(loops && crate::PAIRS == Pairs::Always);
        assert_eq!(guest.t.stats().misled, expected);
    }
}

fn elsewhere(guest: &mut Guest) {
    // pop rcx; add rcx, rsi; push rcx; stc; ret
    guest.load(F, b"\x59\x48\x01\xf1\x51\xf9\xc3");
    // call F; xor ebx, ebx; syscall / sbb ebx, ebx; syscall
    let call = (F - LOW_CODE - 5) as u32;
    let mut code = vec![0xe8];
    code.extend(call.to_le_bytes());
    code.extend(b"\x31\xdb\x0f\x05\x19\xdb\x0f\x05");
    guest.load(LOW_CODE, &code);
    for round in 0..100 {
        let skip = 4 * u64::from(round % 3 != 0);
        guest.ctx.rip = LOW_CODE;
        guest.ctx.gpr[6] = skip;
        guest.ctx.gpr[4] = TOP;
        guest.expect_syscall();
        let expected = if skip == 4 { u64::from(u32::MAX) } else { 0 };
        assert_eq!(guest.ctx.gpr[3], expected, "round {round}");
        assert_eq!(guest.read_u64(TOP - 8), LOW_CODE + 5 + skip);
    }
}

/// With stack pointers of every alignment.
#[test]
fn deep_recursion() {
    for skew in [0, 1, 4, 7] {
        let mut guest = Guest::new(64);
        let at = guest.assemble(F, |a| {
            let mut done = a.create_label();
            a.inc(rax)?;
            a.cmp(rax, DEEP)?;
            a.jae(done)?;
            a.call(F)?;
            a.set_label(&mut done)?;
            a.inc(rbx)?;
            a.ret()
        });
        assert!(at.len() < 64);
        guest.assemble(LOW_CODE, |a| {
            a.call(F)?;
            a.syscall()
        });
        for _ in 0..2 {
            guest.ctx.rip = LOW_CODE;
            guest.ctx.gpr[4] = TOP - skew;
            (guest.ctx.gpr[0], guest.ctx.gpr[3]) = (0, 0);
            guest.expect_syscall();
            assert_eq!((guest.ctx.gpr[0], guest.ctx.gpr[3]), (3000, 3000));
            assert_eq!(guest.ctx.gpr[4], TOP - skew);
        }
    }
}

/// A function that works on another stack meanwhile.
#[test]
fn two_stacks_in_turns() {
    let mut guest = Guest::new(64);
    // F: xchg rsp, rdi; call G; xchg rsp, rdi; ret, G: inc rax; ret
    let g = F + 0x100;
    guest.load(g, b"\x48\xff\xc0\xc3");
    guest.assemble(F, |a| {
        a.xchg(rsp, rdi)?;
        a.call(g)?;
        a.xchg(rsp, rdi)?;
        a.ret()
    });
    guest.assemble(LOW_CODE, |a| {
        a.call(F)?;
        a.call(F)?;
        a.syscall()
    });
    for offset in (0..0x400).step_by(8) {
        guest.ctx.rip = LOW_CODE;
        guest.ctx.gpr[0] = 0;
        guest.ctx.gpr[4] = TOP;
        guest.ctx.gpr[7] = DATA + 0x800 + offset;
        guest.expect_syscall();
        assert_eq!(guest.ctx.gpr[0], 2);
        assert_eq!(guest.ctx.gpr[4], TOP);
    }
}

/// Returns that drop arguments.
#[test]
fn arguments_are_dropped() {
    let mut guest = Guest::new(64);
    guest.load(F, b"\x48\xff\xc0\xc2\x10\x00"); // inc rax; ret 16
    guest.assemble(LOW_CODE, |a| {
        a.push(1)?;
        a.push(2)?;
        a.call(F)?;
        a.syscall()
    });
    for round in 1..50 {
        guest.ctx.rip = LOW_CODE;
        guest.expect_syscall();
        assert_eq!((guest.ctx.gpr[0], guest.ctx.gpr[4]), (round, TOP));
        assert_eq!((guest.read_u64(TOP - 8), guest.read_u64(TOP - 16)), (1, 2));
    }
}

/// From a stack that can only be read.
#[test]
fn a_stack_that_cannot_be_written() {
    let mut guest = Guest::new(64);
    guest.load(LOW_CODE, b"\xc3");
    guest.load(F, b"\xc3");
    guest.load(F + 0x100, b"\x0f\x05");
    let stack: Vec<u8> = [F, F + 0x100]
        .iter()
        .flat_map(|a| a.to_le_bytes())
        .collect();
    guest.fill(DATA, &stack);
    protect(DATA, 0x1000, libc::PROT_READ);
    for _ in 0..3 {
        guest.ctx.rip = LOW_CODE;
        guest.ctx.gpr[1] = 71;
        guest.ctx.gpr[2] = 72;
        guest.ctx.gpr[4] = DATA;
        let stop = guest.run();
        assert!(matches!(stop, Stop::Syscall { .. }), "{stop:?}");
        assert_eq!(guest.ctx.gpr[4], DATA + 16);
        assert_eq!((guest.ctx.gpr[1], guest.ctx.gpr[2]), (71, 72));
    }
    protect(DATA, 0x1000, libc::PROT_READ | libc::PROT_WRITE);
}

/// From a stack that cannot be read: the fault is the return's.
#[test]
fn a_stack_that_is_not_there() {
    let mut guest = Guest::new(64);
    guest.load(LOW_CODE, b"\x90\xc3");
    for top in [0x3000_0000, 0x4141_4141_4141_4141, u64::MAX - 3] {
        guest.ctx.rip = LOW_CODE;
        guest.ctx.gpr[1] = 71;
        guest.ctx.gpr[2] = 72;
        guest.ctx.gpr[4] = top;
        let stop = guest.run();
        assert!(
            matches!(stop, Stop::Fault { pc } if pc == GuestAddr(LOW_CODE + 1)),
            "{stop:?}"
        );
        assert_eq!(guest.ctx.gpr[4], top);
        assert_eq!((guest.ctx.gpr[1], guest.ctx.gpr[2]), (71, 72));
    }
}

/// The landing behind a call is forgotten while the callee runs, then found again.
#[test]
fn landings_that_die_under_a_call() {
    let mut guest = Guest::new(64);
    guest.load(F, b"\x0f\x05\xc3"); // syscall; ret
    guest.assemble(LOW_CODE, |a| {
        a.call(F)?;
        a.inc(rbx)?;
        a.syscall()
    });
    let behind = LOW_CODE + 5;
    for round in 0..8 {
        guest.ctx.rip = LOW_CODE;
        guest.ctx.gpr[4] = TOP;
        guest.expect_syscall();
        assert_eq!(guest.ctx.rip, F);
        if round % 4 == 1 {
            guest.t.invalidate(GuestAddr(behind), GuestAddr(behind + 1)).expect("the code can be changed");
        }
        guest.ctx.rip = F + 2;
        guest.expect_syscall();
        assert_eq!(guest.ctx.gpr[3], round + 1);
        assert_eq!(guest.read_u64(TOP - 8), behind);
    }
}

/// The cache is emptied while the callee runs.
#[test]
fn a_return_after_a_flush() {
    let mut guest = Guest::with(Options {
        max_insns: 64,
        ..Options::default()
    });
    guest.load(F, b"\x0f\x05\xc3");
    guest.assemble(LOW_CODE, |a| {
        a.call(F)?;
        a.inc(rbx)?;
        a.syscall()
    });
    for round in 0..4 {
        guest.ctx.rip = LOW_CODE;
        guest.ctx.gpr[4] = TOP;
        guest.expect_syscall();
        guest.t.flush().expect("flush");
        // Other code where the landing was.
        guest.load(LOW_CODE + 0x800, &[0x90; 200]);
        guest.load(LOW_CODE + 0x800 + 200, b"\x0f\x05");
        guest.ctx.rip = LOW_CODE + 0x800;
        guest.expect_syscall();
        guest.ctx.rip = F + 2;
        guest.expect_syscall();
        assert_eq!(guest.ctx.gpr[3], round + 1);
        assert_eq!(guest.ctx.rip, LOW_CODE + 8);
    }
}

#[test]
fn a_return_to_the_last_address() {
    let mut guest = Guest::new(64);
    guest.load(LOW_CODE, b"\x6a\xff\xc3"); // push -1; ret
    let stop = guest.run();
    let at = GuestAddr(u64::MAX);
    assert_eq!(stop, Stop::NoCode { pc: at, addr: at });
    assert_eq!((guest.ctx.gpr[4], guest.read_u64(TOP - 8)), (TOP, u64::MAX));
}
