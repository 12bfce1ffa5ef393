//! Exits that tell all about themselves: answered without the translator, and gone on behind.

use iced_x86::code_asm::*;
use relive_dbt::{Behind, Next, Stop};
use relive_host::{GuestAddr, enter};

use super::guest::*;

/// xor eax, eax; syscall; inc ebx; syscall
const TWO_CALLS: &[u8] = b"\x31\xc0\x0f\x05\xff\xc3\x0f\x05";

/// Runs up to the first of [`TWO_CALLS`]; returns its entry behind the call if the exit stores one.
fn first_of_two(guest: &mut Guest, at: u64) -> Option<Behind> {
    guest.load(at, TWO_CALLS);
    guest.ctx.gpr[3] = 5;
    guest.expect_syscall();
    let (answer, behind) = Behind::exit(guest.ctx)?;
    let (pc, next) = (GuestAddr(at + 2), GuestAddr(at + 4));
    assert_eq!(answer, Next::Stop(Stop::Syscall { pc, next }));
    assert_eq!(behind.entry(pc), None);
    Some(behind)
}

#[test]
fn a_system_call_says_where_to_go_on() {
    let mut guest = Guest::new(64);
    let behind = first_of_two(&mut guest, LOW_CODE).expect("low code");
    let entry = behind
        .entry(GuestAddr(LOW_CODE + 4))
        .expect("nothing has changed");
    // Not linked yet, then linked.
    for expected in 6..8 {
        let stop = guest.run_from(entry);
        let (pc, next) = (GuestAddr(LOW_CODE + 6), GuestAddr(LOW_CODE + 8));
        assert_eq!(stop, Stop::Syscall { pc, next });
        assert_eq!((guest.ctx.gpr[3], guest.ctx.rip), (expected, pc.0));
    }
    // A stop of another kind is not taken for one.
    guest.load(LOW_CODE + 64, b"\x0f\xa2");
    assert!(matches!(guest.run(), Stop::Instr { .. }));
    assert!(Behind::exit(guest.ctx).is_none());
}

#[test]
fn where_to_go_on_is_forgotten_with_the_translations() {
    let mut guest = Guest::new(64);
    let next = GuestAddr(LOW_CODE + 4);
    let behind = first_of_two(&mut guest, LOW_CODE).expect("low code");
    guest.t.invalidate(next, next.offset(1)).expect("the code can be changed");
    // Nothing was there yet.
    assert!(behind.entry(next).is_some());
    guest.t.invalidate(GuestAddr(LOW_CODE), next).expect("the code can be changed");
    assert_eq!(behind.entry(next), None);
    let behind = first_of_two(&mut guest, LOW_CODE).expect("low code");
    assert!(behind.entry(next).is_some());
    guest.t.flush().expect("the table");
    assert_eq!(behind.entry(next), None);
}

#[test]
fn steps_and_high_code_do_not_say_where_to_go_on() {
    let mut guest = Guest::new(64);
    assert!(first_of_two(&mut guest, HIGH_CODE).is_none());
    guest.load(LOW_CODE, b"\x0f\x05");
    assert!(matches!(guest.step(), Stop::Syscall { .. }));
    assert!(Behind::exit(guest.ctx).is_none());
}

/// Enters the cache where the guest stands, once, and answers the exit without the translator.
fn once(guest: &mut Guest) -> (Next, Behind) {
    let pc = GuestAddr(guest.ctx.rip);
    guest.ctx.entry = guest.t.entry(&guest.memory, pc).expect("code");
    // SAFETY: the adopted context and an entry of the translator's.
    unsafe { enter::enter(&raw mut *guest.ctx) };
    Behind::exit(guest.ctx).expect("an exit that tells all about itself")
}

#[test]
fn the_end_of_a_budget_says_where_to_go_on() {
    for at in [LOW_CODE, HIGH_CODE] {
        let mut guest = Guest::new(64);
        // dec ecx, with CF alive behind it; jnz back; syscall
        guest.load(at, b"\xff\xc9\x75\xfc\x0f\x05");
        guest.ctx.gpr[1] = 1000;
        // Linked, so that the branch itself finds the budget at its end.
        guest.ctx.grant(2);
        assert_eq!(guest.run(), Stop::Budget { pc: GuestAddr(at) });
        guest.ctx.grant(10);
        guest.ctx.rflags |= 0x8d5;
        let mut next = once(&mut guest);
        // The rest of the grant is dealt on the way.
        while let (Next::Enter(entry), _) = next {
            guest.ctx.entry = entry;
            // SAFETY: as in `once`.
            unsafe { enter::enter(&raw mut *guest.ctx) };
            next = Behind::exit(guest.ctx).expect("as before");
        }
        let pc = GuestAddr(at);
        assert_eq!(next.0, Next::Stop(Stop::Budget { pc }));
        assert_eq!((guest.ctx.ticks(), guest.ctx.gpr[1]), (12, 988));
        // All are dead but CF, which is shown as it is.
        assert_eq!((guest.ctx.rip, guest.ctx.rflags & 0x8d5), (at, 1));
        guest.ctx.grant(PLENTY);
        let entry = next.1.entry(pc).expect("nothing has changed");
        let stop = guest.run_from(entry);
        assert!(matches!(stop, Stop::Syscall { .. }), "{stop:?}");
        assert_eq!((guest.ctx.ticks(), guest.ctx.gpr[1]), (999, 0));
    }
}

#[test]
fn a_pause_says_where_to_go_on() {
    let mut guest = Guest::new(64);
    guest.assemble(LOW_CODE, |a| {
        a.sub(eax, 1)?;
        a.pause()?;
        a.setc(cl)?;
        a.xor(eax, eax)?;
        a.syscall()
    });
    let (next, behind) = once(&mut guest);
    let pc = GuestAddr(guest.ctx.rip);
    assert_eq!(next, Next::Stop(Stop::Pause { next: pc }));
    assert_eq!((guest.ctx.ticks(), guest.ctx.rflags & 0x8d5), (1, 1));
    for _ in 0..2 {
        guest.ctx.gpr[1] = 0;
        let stop = guest.run_from(behind.entry(pc).expect("nothing has changed"));
        assert!(matches!(stop, Stop::Syscall { .. }), "{stop:?}");
        guest.ctx.rflags |= 1;
    }
    assert_eq!(guest.ctx.gpr[1], 1);
    // The last tick of a budget.
    guest.ctx.rip = LOW_CODE;
    guest.ctx.grant(1);
    assert_eq!(once(&mut guest).0, Next::Stop(Stop::Budget { pc }));
}
