//! Several threads in the cache at once, while branches are linked and fragments are taken
//! out of use under them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use iced_x86::code_asm::*;
use relive_dbt::{Next, Stop, Translator};
use relive_host::{Context, GuestAddr, enter, signal};

use super::guest::*;

const THREADS: u64 = 3;
const ROUNDS: u64 = 20_000;
const INVALIDATIONS: u64 = 1000;

/// Calls, returns, an indirect jump, branches both ways; counts in rax and rbx. The rounds left are
/// in rcx, which every indirect branch uses on its way.
fn program(a: &mut CodeAssembler) -> Result<(), iced_x86::IcedError> {
    let (mut head, mut even, mut join, mut f, mut g) = (
        a.create_label(),
        a.create_label(),
        a.create_label(),
        a.create_label(),
        a.create_label(),
    );
    a.set_label(&mut head)?;
    a.call(f)?;
    a.test(ecx, 1)?;
    a.je(even)?;
    a.lea(rdx, ptr(g))?;
    a.call(rdx)?;
    a.jmp(join)?;
    a.set_label(&mut even)?;
    a.call(g)?;
    a.set_label(&mut join)?;
    a.dec(ecx)?;
    a.jne(head)?;
    a.syscall()?;
    a.set_label(&mut f)?;
    a.inc(rax)?;
    a.ret()?;
    a.set_label(&mut g)?;
    a.add(rbx, 3)?;
    a.lea(rdx, ptr(f))?;
    a.jmp(rdx)
}

fn run(t: &Mutex<&mut Translator>, memory: &Memory, ctx: &mut Context) -> Stop {
    let lock = || t.lock().expect("no thread panics with the lock");
    let mut entry = lock().entry(memory, GuestAddr(ctx.rip)).expect("code");
    loop {
        ctx.entry = entry;
        // SAFETY: this thread's adopted context, an entry of the translator's.
        unsafe { enter::enter(&raw mut *ctx) };
        match lock().resolve(memory, ctx) {
            Next::Enter(at) => entry = at,
            Next::Stop(stop) => return stop,
        }
    }
}

/// Runs the program with a context and a stack of its own, at least once and until told.
fn worker(t: &Mutex<&mut Translator>, memory: &Memory, number: u64, done: &AtomicBool) {
    let ctx = Box::leak(Context::new());
    signal::install_stack();
    // SAFETY: the context is leaked.
    unsafe { enter::adopt(ctx) };
    loop {
        let last = done.load(Ordering::Relaxed);
        reset(ctx);
        ctx.rip = LOW_CODE;
        ctx.gpr[4] = TOP - 0x1000 * number;
        ctx.gpr[1] = ROUNDS;
        let stop = run(t, memory, ctx);
        assert!(matches!(stop, Stop::Syscall { .. }), "{stop:?}");
        assert_eq!((ctx.gpr[0], ctx.gpr[3]), (2 * ROUNDS, 3 * ROUNDS));
        // Two calls and a jump per round, and the branch back.
        assert_eq!(ctx.ticks(), 4 * ROUNDS - 1);
        if last {
            return;
        }
    }
}

#[test]
fn threads_share_a_cache_that_changes_under_them() {
    for max in [1, 64] {
        let mut guest = Guest::with(relive_dbt::Options {
            together: true,
            ..options(max)
        });
        guest.assemble(LOW_CODE, program);
        let Guest { t, memory, .. } = &mut guest;
        let (t, memory) = (Mutex::new(t), &*memory);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for i in 0..THREADS {
                let (t, done) = (&t, &done);
                scope.spawn(move || worker(t, memory, i, done));
            }
            for _ in 0..INVALIDATIONS {
                let mut t = t.lock().expect("no thread panics with the lock");
                t.invalidate(GuestAddr(LOW_CODE), GuestAddr(LOW_CODE + 0x40));
                drop(t);
                std::thread::sleep(Duration::from_micros(30));
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
