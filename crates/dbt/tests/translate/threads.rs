//! Several threads in the cache at once, while branches are linked and fragments are taken
//! out of use under them, and their room is used again when all are out of it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, RwLock};
use std::time::Duration;

use iced_x86::code_asm::*;
use relive_dbt::{Next, Stop, Translator};
use relive_host::{Context, GuestAddr, cpu, enter, signal};

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

/// The translator, and the lock that each thread holds while it knows a place in the cache.
struct Shared<'t> {
    t: Mutex<&'t mut Translator>,
    inside: RwLock<()>,
    reclaims: AtomicU64,
}

fn run(shared: &Shared<'_>, memory: &Memory, ctx: &mut Context) -> Stop {
    let lock = || shared.t.lock().expect("no thread panics with the lock");
    let _inside = shared.inside.read().expect("no thread panics with the lock");
    let mut entry = match lock().entry(memory, GuestAddr(ctx.rip)) {
        Ok(entry) => entry,
        Err(bad) => return bad.into(),
    };
    // Other code may lie where this thread has been.
    cpu::serialize();
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
fn worker(shared: &Shared<'_>, memory: &Memory, number: u64, done: &AtomicBool) {
    let ctx = Box::leak(Context::new());
    signal::install_stack().expect("memory");
    // SAFETY: the context is leaked.
    unsafe { enter::adopt(ctx) };
    loop {
        let last = done.load(Ordering::Relaxed);
        reset(ctx);
        ctx.rip = LOW_CODE;
        ctx.gpr[4] = TOP - 0x1000 * number;
        ctx.gpr[1] = ROUNDS;
        let stop = loop {
            match run(shared, memory, ctx) {
                Stop::CacheFull { .. } => {
                    let _alone = shared.inside.write().expect("no thread panics with the lock");
                    let mut t = shared.t.lock().expect("no thread panics with the lock");
                    t.reclaim().expect("memory");
                    shared.reclaims.fetch_add(1, Ordering::Relaxed);
                }
                stop => break stop,
            }
        };
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
            cache_bytes: 1 << 18,
            ..options(max)
        });
        guest.assemble(LOW_CODE, program);
        let Guest { t, memory, .. } = &mut guest;
        let memory = &*memory;
        let shared = Shared {
            t: Mutex::new(t),
            inside: RwLock::new(()),
            reclaims: AtomicU64::new(0),
        };
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for i in 0..THREADS {
                let (shared, done) = (&shared, &done);
                scope.spawn(move || worker(shared, memory, i, done));
            }
            for _ in 0..INVALIDATIONS {
                let mut t = shared.t.lock().expect("no thread panics with the lock");
                t.invalidate(GuestAddr(LOW_CODE), GuestAddr(LOW_CODE + 0x40)).expect("the code can be changed");
                drop(t);
                std::thread::sleep(Duration::from_micros(30));
            }
            done.store(true, Ordering::Relaxed);
        });
        assert!(shared.reclaims.into_inner() > 0, "the cache was never full");
    }
}
