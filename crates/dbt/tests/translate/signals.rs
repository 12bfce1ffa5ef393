//! An asynchronous signal makes a running guest leave at its next tick, and the ticks stay
//! exact, wherever the signal hits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iced_x86::IcedError;
use iced_x86::code_asm::*;
use relive_dbt::{Options, Stop};
use relive_host::layout;
use relive_host::signal::{self, Disposition, Mask};

use super::guest::*;

const ROUNDS: u64 = 300;

/// Ends the bombardment, also when an assertion fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs an endless loop that counts its ticks in rbx and is hit by signals.
fn bombard(f: impl FnOnce(&mut CodeAssembler) -> Result<(), IcedError>) {
    let mut guest = Guest::new(64);
    signal::set_disposition(libc::SIGUSR1, Disposition::Handler);
    guest.assemble(LOW_CODE, f);
    // SAFETY: names the calling thread.
    let thread = unsafe { libc::pthread_self() };
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // SAFETY: the thread outlives this scope.
                unsafe { libc::pthread_kill(thread, libc::SIGUSR1) };
                std::thread::sleep(Duration::from_micros(50));
            }
        });
        let _end = End(&done);
        for _ in 0..ROUNDS {
            guest.ctx.grant(i64::MAX / 2);
            while guest.ctx.pending == 0 {
                let stop = guest.run();
                assert!(matches!(stop, Stop::Budget { .. }), "{stop:?}");
                assert_eq!(guest.ctx.ticks(), guest.ctx.gpr[3]);
                if guest.ctx.pending == 0 {
                    // A signal that came between the grant and the entry was noted before.
                    guest.ctx.grant(i64::MAX / 2);
                }
            }
            guest.ctx.noted = 0;
            guest.ctx.pending = 0;
            signal::set_mask(Mask(0));
        }
    });
    signal::set_mask(Mask(0));
    signal::set_disposition(libc::SIGUSR1, Disposition::Ignore);
    guest.ctx.noted = 0;
    guest.ctx.pending = 0;
}

#[test]
fn a_loop_with_dead_flags() {
    bombard(|a| {
        let mut head = a.create_label();
        a.set_label(&mut head)?;
        a.inc(rbx)?;
        a.add(rax, rbx)?;
        a.jmp(head)
    });
}

#[test]
fn a_loop_with_live_flags() {
    bombard(|a| {
        let mut head = a.create_label();
        a.set_label(&mut head)?;
        a.lea(rbx, rbx + 1)?;
        a.jmp(head)
    });
}

/// Its rounds are counted several at once.
#[test]
fn a_loop_with_a_condition() {
    bombard(|a| {
        let mut head = a.create_label();
        a.set_label(&mut head)?;
        a.inc(rbx)?;
        a.cmp(rbx, -1)?;
        a.jne(head)?;
        a.xor(eax, eax)?;
        a.syscall()
    });
}

/// It is left in the midst of rounds that were counted.
#[test]
fn a_loop_of_few_rounds() {
    for rounds in 1..12 {
        bombard(|a| {
            let (mut outer, mut head) = (a.create_label(), a.create_label());
            a.set_label(&mut outer)?;
            a.xor(eax, eax)?;
            a.set_label(&mut head)?;
            a.inc(rbx)?;
            a.add(eax, 1)?;
            a.cmp(eax, rounds)?;
            a.jne(head)?;
            a.xor(eax, eax)?;
            a.jmp(outer)
        });
    }
}

/// A signal's handler reads some bytes of code behind the interrupted instruction, which may be the cache's last.
#[test]
fn code_ends_before_the_cache_does() {
    const BYTES: u64 = 128 << 10;
    let mut guest = Guest::with(Options {
        cache_bytes: BYTES,
        ..options(1)
    });
    guest.assemble(LOW_CODE, |a| {
        for _ in 0..20 {
            a.inc(rbx)?;
        }
        a.syscall()
    });
    // The first stub of all is at the end; a cache that has been emptied begins with one again.
    for _ in 0..2 {
        guest.ctx.rip = LOW_CODE;
        guest.expect_syscall();
        let end = layout::CACHE_START + BYTES;
        let tail = end - signal::READ_AHEAD as u64..end;
        // SAFETY: the cache has so many bytes, and no other thread is in it.
        let byte = |at: u64| unsafe { (at as *const u8).read_volatile() };
        let has_code = (tail.start - 16..tail.start).any(|at| byte(at) != 0);
        assert!(has_code, "no code in front of the tail");
        assert!(tail.into_iter().all(|at| byte(at) == 0), "code in it");
        guest.t.flush().expect("the cache can be emptied");
    }
}
