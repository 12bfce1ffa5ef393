//! Guest code that changes, a full cache, and starting over.

use iced_x86::code_asm::*;
use relive_dbt::{Options, Pairs, Stop};
use relive_host::layout::TABLE;
use relive_host::{GuestAddr, enter};

use super::guest::*;

/// `main` calls `f` directly, through a register and by a jump, 3 rounds; `f` is at
/// [`F`], on a page of its own.
const F: u64 = LOW_CODE + 0x2000;

fn program(guest: &mut Guest) {
    guest.assemble(LOW_CODE, |a| {
        let (mut head, mut back) = (a.create_label(), a.create_label());
        a.mov(r14d, 3)?;
        a.mov(edx, F as u32)?;
        a.set_label(&mut head)?;
        a.call(F)?;
        a.call(rdx)?;
        a.lea(rsi, ptr(back))?;
        a.push(rsi)?;
        a.jmp(F)?;
        a.set_label(&mut back)?;
        a.dec(r14d)?;
        a.jne(head)?;
        a.syscall()
    });
}

/// `f` adds `n` to rax.
fn f(n: u8) -> [u8; 5] {
    [0x48, 0x83, 0xc0, n, 0xc3]
}

fn changed(guest: &mut Guest) {
    guest.t.invalidate(GuestAddr(F), GuestAddr(F + 0x1000)).expect("the code can be changed");
}

#[test]
fn new_code_is_executed_everywhere() {
    for max in [1, 64] {
        let mut guest = Guest::new(max);
        program(&mut guest);
        for n in 1..5 {
            guest.load(F, &f(n));
            changed(&mut guest);
            guest.ctx.rip = LOW_CODE;
            guest.ctx.gpr[0] = 0;
            guest.expect_syscall();
            assert_eq!(guest.ctx.gpr[0], 9 * u64::from(n));
        }
        let stats = guest.t.stats();
        assert!(stats.invalidated >= 3);
        assert_eq!(stats.stale_entries, 0, "something still led to dead code");
    }
}

/// A tick may lose flags because of the code that a jump leads to.
#[test]
fn where_flags_are_lost_depends_on_code_behind_jumps() {
    let mut guest = Guest::new(64);
    guest.jump_with_flags(F);
    for code in [FLAGS_WRITER, FLAGS_READER, FLAGS_WRITER, FLAGS_READER] {
        guest.load(F, &code);
        changed(&mut guest);
        let seen = guest.flags_behind_jump();
        if code == FLAGS_READER {
            assert_eq!(seen, 0x95, "flags were lost");
        }
    }
}

/// Without the call the old translation goes on, so that the test above can fail.
#[test]
fn old_translations_live_until_invalidated() {
    let mut guest = Guest::new(64);
    program(&mut guest);
    guest.load(F, &f(1));
    guest.ctx.rip = LOW_CODE;
    guest.expect_syscall();
    guest.load(F, &f(2));
    guest.ctx.rip = LOW_CODE;
    guest.ctx.gpr[0] = 0;
    guest.expect_syscall();
    assert_eq!(guest.ctx.gpr[0], 9);
}

/// A thread that is just about to enter a dead fragment is resolved anew.
#[test]
fn dead_entries_lead_to_the_new_code() {
    let mut guest = Guest::new(64);
    guest.load(F, &f(1));
    let entry = guest.t.entry(&guest.memory, GuestAddr(F)).expect("entry");
    guest.load(F, b"\x48\x83\xc0\x07\x0f\x05");
    changed(&mut guest);
    guest.ctx.entry = entry;
    // SAFETY: the entry was the translator's, which handles dead ones as well.
    unsafe { enter::enter(&raw mut *guest.ctx) };
    let next = guest.t.resolve(&guest.memory, guest.ctx);
    let relive_dbt::Next::Enter(entry) = next else {
        panic!("{next:?}")
    };
    guest.ctx.entry = entry;
    // SAFETY: as above.
    unsafe { enter::enter(&raw mut *guest.ctx) };
    let next = guest.t.resolve(&guest.memory, guest.ctx);
    assert!(
        matches!(next, relive_dbt::Next::Stop(Stop::Syscall { .. })),
        "{next:?}"
    );
    assert_eq!(guest.ctx.gpr[0], 7);
}

/// The same for a thread that has read its table slot already: rcx is the guest's again,
/// and a jump's tick is counted.
#[test]
fn dead_landings_lead_to_the_new_code() {
    let mut guest = Guest::with(Options {
        pairs: Pairs::Never,
        ..options(64)
    });
    program(&mut guest);
    guest.load(F, &f(1));
    guest.ctx.rip = LOW_CODE;
    guest.expect_syscall();
    // The return site behind the first call, where the two moves are 6 and 5 bytes long.
    let site = LOW_CODE + 6 + 5 + 5;
    for (target, slot, ticks) in [(F, F, 1), (site, site - 1, 0)] {
        // SAFETY: the slot is in the mapped part of the branch table.
        let landing = unsafe { ((TABLE + 8 * slot) as *const u64).read_volatile() };
        guest.t.invalidate(GuestAddr(target), GuestAddr(target + 1)).expect("the code can be changed");
        guest.ctx.entry = landing;
        guest.ctx.gpr[1] = target;
        guest.ctx.spill_rcx = 77;
        let (before, stale) = (guest.ctx.ticks(), guest.t.stats().stale_entries);
        // SAFETY: as above, and as an indirect branch enters it.
        unsafe { enter::enter(&raw mut *guest.ctx) };
        let next = guest.t.resolve(&guest.memory, guest.ctx);
        assert_eq!(
            next,
            relive_dbt::Next::Enter(
                guest
                    .t
                    .entry(&guest.memory, GuestAddr(target))
                    .expect("entry")
            )
        );
        assert_eq!((guest.ctx.gpr[1], guest.ctx.ticks()), (77, before + ticks));
        assert_eq!(guest.t.stats().stale_entries, stale + 1);
    }
}

#[test]
fn unmapped_code_is_gone() {
    let mut guest = Guest::new(64);
    program(&mut guest);
    guest.load(F, &f(1));
    guest.ctx.rip = LOW_CODE;
    guest.expect_syscall();
    guest.memory.executable[0].1 = F;
    changed(&mut guest);
    guest.ctx.rip = LOW_CODE;
    let ticks = guest.ctx.ticks();
    assert_eq!(
        guest.run(),
        Stop::NoCode {
            pc: GuestAddr(F),
            addr: GuestAddr(F)
        }
    );
    assert_eq!(guest.ctx.ticks(), ticks + 1);
}

/// Whether the flags at `F` are dead depends on bytes that `F`'s fragment does not contain.
#[test]
fn look_ahead_is_part_of_what_a_fragment_depends_on() {
    for max in [1, 64] {
        let mut guest = Guest::new(max);
        // cmp ecx, 1 sets CF; call F
        guest.load(LOW_CODE, b"\x83\xf9\x01\xe8\xf8\x1f\x00\x00\x0f\x05");
        // F: nop * 4; xor eax, eax / sbb eax, eax; ret
        for (tail, result) in [
            (b"\x31\xc0\xc3", 0),
            (b"\x19\xc0\xc3", 0xffff_ffff),
            (b"\x31\xc0\xc3", 0),
        ] {
            guest.load(F, b"\x90\x90\x90\x90");
            guest.load(F + 4, tail);
            guest.t.invalidate(GuestAddr(F + 4), GuestAddr(F + 6)).expect("the code can be changed");
            guest.ctx.rip = LOW_CODE;
            guest.ctx.gpr[1] = 0;
            guest.expect_syscall();
            assert_eq!(guest.ctx.gpr[0], result);
            assert!(guest.t.has_code(GuestAddr(F + 5), GuestAddr(F + 6)));
        }
    }
}

#[test]
fn pages_with_translations_are_known() {
    let mut guest = Guest::new(64);
    guest.load(F, &f(1));
    let page = |g: &Guest, at| g.t.has_code(GuestAddr(at), GuestAddr(at + 0x1000));
    assert!(!page(&guest, F));
    guest.t.entry(&guest.memory, GuestAddr(F)).expect("entry");
    assert!(page(&guest, F) && !page(&guest, F + 0x1000) && !page(&guest, F - 0x1000));
    assert!(guest.t.has_code(GuestAddr(0), GuestAddr(u64::MAX)));
    changed(&mut guest);
    assert!(!page(&guest, F));
    guest
        .t
        .step_entry(&guest.memory, GuestAddr(F))
        .expect("entry");
    assert!(page(&guest, F));
}

#[test]
fn a_flush_forgets_everything_and_the_guest_goes_on() {
    let mut guest = Guest::new(64);
    program(&mut guest);
    for n in 1..4 {
        guest.load(F, &f(n));
        guest.ctx.rip = LOW_CODE;
        guest.ctx.gpr[0] = 0;
        guest.expect_syscall();
        assert_eq!(guest.ctx.gpr[0], 9 * u64::from(n));
        guest.t.flush().expect("flush");
        assert!(!guest.t.has_code(GuestAddr(0), GuestAddr(u64::MAX)));
    }
}

/// A chain of jumps all over the code, with a cache that cannot hold it: the guest stops
/// when it is full, and goes on after a flush; no tick is lost or counted twice.
#[test]
fn a_full_cache_stops_the_guest_and_loses_nothing() {
    const ROUNDS: u64 = 5000;
    let mut ticks = Vec::new();
    for (bytes, min_flushes) in [(u64::MAX, 0), (1 << 20, 1)] {
        let mut guest = Guest::with(Options {
            max_insns: 64,
            cache_bytes: bytes,
            ..Options::default()
        });
        // 0x1_8000 bytes of `inc eax`, entered at each, ends in `ret`; the caller walks rdx.
        let mut code = b"\xff\xc0".repeat(0x8000);
        code.push(0xc3);
        guest.fill(LOW_CODE + 0x1000, &code);
        guest.assemble(LOW_CODE, |a| {
            let mut head = a.create_label();
            a.set_label(&mut head)?;
            a.call(rdx)?;
            a.sub(rdx, 8)?;
            a.dec(r14d)?;
            a.jne(head)?;
            a.syscall()
        });
        guest.ctx.gpr[2] = LOW_CODE + 0x1000 + 0x1_0000;
        guest.ctx.gpr[14] = ROUNDS;
        let stop = loop {
            let stop = guest.run();
            if !matches!(stop, Stop::CacheFull { .. }) {
                break stop;
            }
            guest.t.flush().expect("flush");
        };
        assert!(matches!(stop, Stop::Syscall { .. }), "{stop:?}");
        assert!(
            guest.t.stats().flushes >= min_flushes,
            "{:?}",
            guest.t.stats()
        );
        assert_eq!(guest.ctx.gpr[0], (0..ROUNDS).map(|i| i * 4).sum::<u64>());
        ticks.push(guest.ctx.ticks());
    }
    assert_eq!(ticks[0], ticks[1]);
    assert_eq!(ticks[0], 2 * ROUNDS - 1);
}
