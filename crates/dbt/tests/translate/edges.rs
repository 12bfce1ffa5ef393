//! The edges that threads log at ordered instructions: they tell the order of all operations.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use iced_x86::code_asm::*;
use relive_dbt::{Next, Options, Stop, Translator};
use relive_host::order::{EDGES, Edge};
use relive_host::{Context, GuestAddr, call_out, enter, signal};
use relive_sched::Rng;

use super::guest::*;
use super::ordered::{OTHER, last, recorded};

/// Operations of the threads below, on word `.0`.
#[derive(Clone, Copy)]
enum Op {
    Add(usize, i32),
    Exchange(usize, i32),
    /// Expects the value logged last.
    Compare(usize, i32),
    Increment(usize),
    /// Of an even word and the next one: expects the value logged last, and 0; sets both.
    CompareTwo(usize, i32),
    /// Of 64 bits: sets this one.
    Bit(usize, i32),
}

const WORDS: usize = 20;
const THREADS: usize = 3;
const LENGTH: usize = 40;
const ROUNDS: usize = 60_000;
/// Ticks after which a thread offers its processor to the others.
const TURN: i64 = 1000;

impl Op {
    fn random(rng: &mut Rng) -> Self {
        let word = rng.below(WORDS as u64) as usize;
        let value = rng.below(5) as i32;
        match rng.below(6) {
            0 => Self::Add(word, value),
            1 => Self::Exchange(word, value),
            2 => Self::Compare(word, value),
            3 => Self::Increment(word),
            4 => Self::CompareTwo(word & !1, value),
            _ => Self::Bit(word, value),
        }
    }

    /// The words lie in rbx and on; r8 is the value logged last, rdi the place for the next.
    fn emit(self, a: &mut CodeAssembler) -> Result<(), IcedError> {
        let at = |word: usize| rbx + 8 * word as i32;
        match self {
            Self::Add(word, value) => {
                a.mov(rsi, i64::from(value))?;
                a.lock().xadd(qword_ptr(at(word)), rsi)?;
                a.mov(r8, rsi)?;
            }
            Self::Exchange(word, value) => {
                a.mov(ecx, value)?;
                a.xchg(qword_ptr(at(word)), rcx)?;
                a.mov(r8, rcx)?;
            }
            Self::Compare(word, value) => {
                a.mov(rax, r8)?;
                a.mov(esi, value)?;
                a.lock().cmpxchg(qword_ptr(at(word)), rsi)?;
                a.mov(r8, rax)?;
            }
            Self::Increment(word) => a.lock().inc(qword_ptr(at(word)))?,
            Self::CompareTwo(word, value) => {
                a.mov(rax, r8)?;
                a.xor(edx, edx)?;
                a.mov(ecx, value)?;
                a.push(rbx)?;
                a.mov(rsi, rbx)?;
                a.mov(ebx, value)?;
                a.lock().cmpxchg16b(xmmword_ptr(rsi + 8 * word as i32))?;
                a.pop(rbx)?;
                a.lea(r8, rax + rdx)?;
            }
            Self::Bit(word, value) => {
                a.mov(eax, value)?;
                a.lock().bts(qword_ptr(at(word)), rax)?;
                a.setc(al)?;
                a.movzx(r8d, al)?;
            }
        }
        a.mov(qword_ptr(rdi), r8)?;
        a.add(rdi, 8)
    }

    /// The same on values; `seen` is the value logged last.
    fn apply(self, words: &mut [u64; WORDS], seen: u64) -> u64 {
        match self {
            Self::Add(word, value) => {
                let old = words[word];
                words[word] = old.wrapping_add(value as u64);
                old
            }
            Self::Exchange(word, value) => std::mem::replace(&mut words[word], value as u64),
            Self::Compare(word, value) => {
                let old = words[word];
                if old == seen {
                    words[word] = value as u64;
                }
                old
            }
            Self::Increment(word) => {
                words[word] = words[word].wrapping_add(1);
                seen
            }
            Self::CompareTwo(word, value) => {
                let old = [words[word], words[word + 1]];
                if old == [seen, 0] {
                    (words[word], words[word + 1]) = (value as u64, value as u64);
                    return seen;
                }
                old[0].wrapping_add(old[1])
            }
            Self::Bit(word, value) => {
                let old = words[word] >> value & 1;
                words[word] |= 1 << value;
                old
            }
        }
    }
}

/// One thread's work, and its results.
struct Thread {
    ops: Vec<Op>,
    log: Vec<u64>,
    edges: VecDeque<Edge>,
}

/// Runs a thread's program to its end, and takes its edges on the way.
fn work(t: &Mutex<&mut Translator>, memory: &Memory, ctx: &mut Context, edges: &mut Vec<Edge>) {
    let lock = || t.lock().expect("no thread panics with the lock");
    loop {
        let mut next = lock().entry(memory, GuestAddr(ctx.rip)).expect("code");
        let stop = loop {
            ctx.entry = next;
            // SAFETY: this thread's adopted context, an entry of the translator's.
            unsafe { enter::enter(&raw mut *ctx) };
            match lock().resolve(memory, ctx) {
                Next::Enter(at) => next = at,
                Next::Stop(stop) => break stop,
            }
        };
        edges.extend(ctx.edges());
        ctx.clear_edges();
        ctx.wanted = 0;
        match stop {
            Stop::Budget { .. } => {}
            Stop::Syscall { .. } => return,
            other => panic!("{other:?}"),
        }
        ctx.grant(TURN);
        std::thread::yield_now();
    }
}

/// Goes through all operations in an order that the edges allow, and compares the values read.
fn follow(threads: &mut [Thread]) {
    let mut words = [0; WORDS];
    let mut done = [0u64; THREADS];
    let mut seen = [0u64; THREADS];
    loop {
        let before = done;
        for i in 0..THREADS {
            let thread = &mut threads[i];
            while (done[i] as usize) < thread.log.len() {
                let at = done[i] + 1;
                let waits = thread.edges.front().is_some_and(|edge| {
                    assert!(edge.at >= at, "edges are in order");
                    edge.at == at && done[edge.from as usize - 1] < edge.from_op
                });
                if waits {
                    break;
                }
                if thread.edges.pop_front_if(|edge| edge.at == at).is_some() {
                    // The loop leads back after so many.
                    continue;
                }
                let op = thread.ops[done[i] as usize % LENGTH];
                seen[i] = op.apply(&mut words, seen[i]);
                assert_eq!(seen[i], thread.log[done[i] as usize], "operation {at} of {i}");
                done[i] += 1;
            }
        }
        if done == before {
            break;
        }
    }
    assert_eq!(done, [(LENGTH * ROUNDS) as u64; THREADS], "the edges are a circle");
    for (i, word) in words.into_iter().enumerate() {
        // SAFETY: the guest's data, and no guest runs.
        let value = unsafe { ((DATA + 8 * i as u64) as *const u64).read() };
        assert_eq!(word, value, "word {i}");
    }
}

#[test]
fn edges_tell_the_order_of_all_operations() {
    let mut rng = Rng::new(7);
    let mut guest = Guest::with(Options {
        together: true,
        ..recorded(64)
    });
    let mut threads: Vec<Thread> = (0..THREADS)
        .map(|_| Thread {
            ops: (0..LENGTH).map(|_| Op::random(&mut rng)).collect(),
            log: vec![0; LENGTH * ROUNDS],
            edges: VecDeque::new(),
        })
        .collect();
    let starts: Vec<u64> = (0..THREADS as u64).map(|i| LOW_CODE + 0x2000 * i).collect();
    for (thread, start) in threads.iter().zip(&starts) {
        guest.assemble(*start, |a| {
            let mut head = a.create_label();
            a.set_label(&mut head)?;
            thread.ops.iter().try_for_each(|op| op.emit(a))?;
            a.dec(r9)?;
            a.jne(head)?;
            a.syscall()
        });
    }
    let Guest { t, memory, .. } = &mut guest;
    let (t, memory) = (Mutex::new(t), &*memory);
    let tids = [const { AtomicU32::new(0) }; THREADS];
    let barrier = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        let workers: Vec<_> = threads
            .iter_mut()
            .zip(&starts)
            .enumerate()
            .map(|(i, (thread, start))| {
                let (t, barrier, tid) = (&t, &barrier, &tids[i]);
                scope.spawn(move || {
                    let ctx = Box::leak(Context::new());
                    signal::install_stack().expect("memory");
                    // SAFETY: the context is leaked.
                    unsafe { enter::adopt(ctx) };
                    reset(ctx);
                    ctx.grant(TURN);
                    ctx.order_id = i as u32 + 1;
                    ctx.rip = *start;
                    ctx.gpr[4] = TOP - 0x1000 * i as u64;
                    ctx.gpr[3] = DATA;
                    ctx.gpr[7] = thread.log.as_mut_ptr() as u64;
                    ctx.gpr[9] = ROUNDS as u64;
                    barrier.wait();
                    tid.store(relive_host::sys::gettid(), Ordering::Release);
                    let mut edges = Vec::new();
                    work(t, memory, ctx, &mut edges);
                    assert_eq!(ctx.ops, (LENGTH * ROUNDS) as u64);
                    assert_eq!(ctx.ticks(), ROUNDS as u64 - 1);
                    for edge in &edges {
                        assert_eq!(edge.ticks, (edge.at - 1) / LENGTH as u64);
                    }
                    thread.edges = edges.into();
                })
            })
            .collect();
        // All the while threads are called out.
        while workers.iter().any(|worker| !worker.is_finished()) {
            for tid in &tids {
                let tid = tid.load(Ordering::Acquire);
                if tid != 0 {
                    call_out::call_out(std::process::id(), tid);
                }
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    });
    assert!(threads.iter().any(|thread| !thread.edges.is_empty()));
    follow(&mut threads);
}

/// Code with one operation on each of some lines, of which another thread held each last.
fn lines(guest: &mut Guest, count: u64) {
    for line in 0..count {
        assert_eq!(last(STACK + 64 * line), None);
    }
    guest.assemble(LOW_CODE, |a| {
        let mut head = a.create_label();
        a.set_label(&mut head)?;
        a.lock().inc(dword_ptr(rbx))?;
        a.add(rbx, 64)?;
        a.dec(ecx)?;
        a.jne(head)?;
        a.syscall()
    });
    (guest.ctx.gpr[1], guest.ctx.gpr[3]) = (count, STACK);
}

/// The edge of the thread's n-th operation there, and none before.
fn expected(n: u64) -> Edge {
    Edge {
        at: n,
        ticks: n - 1,
        from_op: 1,
        from: OTHER,
        pad: 0,
    }
}

#[test]
fn a_thread_stops_at_its_next_tick_before_it_has_no_room_for_edges() {
    const LINES: u64 = 1000;
    let mut guest = Guest::with(recorded(64));
    lines(&mut guest, LINES);
    let stop = guest.run();
    assert!(matches!(stop, Stop::Budget { .. }), "{stop:?}");
    let first = EDGES as u64 / 2 + 1;
    assert_eq!((guest.ctx.ops, guest.ctx.ticks()), (first, first));
    assert!(guest.ctx.granted() > 0);
    let mut edges = guest.ctx.edges().to_vec();
    guest.ctx.clear_edges();
    guest.ctx.grant(PLENTY);
    guest.expect_syscall();
    edges.extend(guest.ctx.edges());
    assert_eq!(edges, (1..=LINES).map(expected).collect::<Vec<_>>());
}

/// The stub that calls the host, and the record of a fault, come along.
#[test]
fn translations_taken_over_log_edges_and_recover_from_faults() {
    const NAME: &[u8] = b"a program";
    let code = |guest: &mut Guest| {
        guest.assemble(LOW_CODE, |a| {
            a.lock().xadd(qword_ptr(rbx), rax)?;
            a.xchg(qword_ptr(r11), rcx)?;
            a.syscall()
        });
        (guest.ctx.gpr[0], guest.ctx.gpr[1], guest.ctx.gpr[3]) = (3, 4, DATA);
    };
    let mut guest = Guest::with(recorded(64));
    code(&mut guest);
    let stop = guest.run();
    assert!(matches!(stop, Stop::Fault { .. }), "{stop:?}");
    let mut read = |at: u64, out: &mut [u8]| {
        // SAFETY: the ranges below are mapped guest memory.
        out.copy_from_slice(unsafe { std::slice::from_raw_parts(at as *const u8, out.len()) });
        true
    };
    let range = (LOW_CODE, LOW_CODE + CODE_LEN);
    let kept = guest.t.save(guest.t.key(NAME), &[range], &mut read);
    drop(guest);
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(&kept.expect("something to keep")).expect("written");

    let mut guest = Guest::with(recorded(64));
    code(&mut guest);
    let key = guest.t.key(NAME);
    assert!(guest.t.load(key, &file, true) > 0);
    guest.t.activate(range.0, range.1, &mut |_, _| true);
    assert_eq!(last(DATA), None);
    let before = guest.ctx.gpr;
    let stop = guest.run();
    assert!(matches!(stop, Stop::Fault { .. }), "{stop:?}");
    assert_eq!(guest.t.stats().fragments, 0);
    assert_eq!(guest.ctx.edges(), [expected(1)]);
    assert_eq!(guest.ctx.ops, 1);
    assert_eq!(guest.ctx.gpr[1..], before[1..]);
}
