//! Loops whose ticks are counted for several rounds at once: nobody can tell.

use iced_x86::code_asm::*;
use relive_dbt::Stop;
use relive_host::GuestAddr;

use super::guest::*;

const RW: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// A loop that counts its rounds in rbx and rsi up to rcx, of `more` instructions than it needs, and the end behind it.
fn counting(a: &mut CodeAssembler, more: usize) -> Result<(), IcedError> {
    let mut head = a.create_label();
    a.set_label(&mut head)?;
    a.lea(rsi, rsi + 1)?;
    for _ in 0..more {
        a.lea(r8, r8 + 1)?;
    }
    a.add(rbx, 1)?;
    a.cmp(rbx, rcx)?;
    a.jne(head)?;
    a.xor(eax, eax)?;
    a.syscall()
}

#[test]
fn budgets_end_in_any_round() {
    for max in [1, 20, 64] {
        for more in 0..14 {
            let mut guest = Guest::new(max);
            guest.assemble(LOW_CODE, |a| counting(a, more));
            for rounds in 1..40 {
                for grant in (1..20).chain([33, 100]) {
                    guest.ctx.rip = LOW_CODE;
                    guest.ctx.restart_ticks(0);
                    (guest.ctx.gpr[3], guest.ctx.gpr[6]) = (0, 0);
                    guest.ctx.gpr[1] = rounds;
                    let mut ticks = 0;
                    loop {
                        guest.ctx.grant(grant);
                        let stop = guest.run();
                        let what = format!("{rounds} rounds with {more} more, grant {grant}");
                        if matches!(stop, Stop::Syscall { .. }) {
                            assert_eq!(guest.ctx.ticks(), rounds - 1, "{what}");
                            assert_eq!(guest.ctx.gpr[6], rounds, "{what}");
                            break;
                        }
                        ticks += grant as u64;
                        let pc = GuestAddr(LOW_CODE);
                        assert_eq!(stop, Stop::Budget { pc }, "{what}");
                        assert_eq!(guest.ctx.ticks(), ticks, "{what}");
                        assert_eq!(guest.ctx.gpr[3], ticks, "{what}");
                        assert_eq!(guest.ctx.gpr[6], ticks, "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn faults_come_in_any_round() {
    const ROUNDS: u64 = 60;
    for max in [1, 64] {
        for first in 0..40 {
            let mut guest = Guest::new(max);
            guest.assemble(LOW_CODE, |a| {
                let mut head = a.create_label();
                a.set_label(&mut head)?;
                a.lea(rsi, rsi + 1)?;
                a.mov(qword_ptr(rdi + rbx * 8), rbx)?;
                a.add(rbx, 1)?;
                a.cmp(rbx, rcx)?;
                a.jne(head)?;
                a.xor(eax, eax)?;
                a.syscall()
            });
            (guest.ctx.gpr[3], guest.ctx.gpr[6]) = (0, 0);
            guest.ctx.gpr[1] = ROUNDS;
            guest.ctx.gpr[7] = DATA + 0x1000 - 8 * first;
            guest.ctx.grant(PLENTY);
            protect(DATA + 0x1000, 0x1000, libc::PROT_NONE);
            let stop = guest.run();
            protect(DATA + 0x1000, 0x1000, RW);
            let pc = GuestAddr(guest.ctx.rip);
            assert_eq!(stop, Stop::Fault { pc });
            assert_eq!(guest.ctx.ticks(), first);
            assert_eq!(guest.ctx.granted(), PLENTY - first as i64);
            assert_eq!(guest.ctx.gpr[3], first);
            assert_eq!(guest.ctx.gpr[6], first + 1);
            guest.expect_syscall();
            assert_eq!(guest.ctx.ticks(), ROUNDS - 1);
            assert_eq!(guest.read_u64(DATA + 0x1000), first);
        }
    }
}
