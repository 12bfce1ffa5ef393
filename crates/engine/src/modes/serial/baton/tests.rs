//! The baton at its seam: threads that do nothing but hand it over, and policies that choose as told.

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use relive_sched::RoundRobin;

use super::*;
use crate::process::Process;
use crate::process::state::ProcessState;
use crate::testing::machine;

/// Hands the baton to the thread that came last.
struct LastFirst;

impl Policy for LastFirst {
    fn slice(&mut self, _: bool) -> u64 {
        1
    }

    fn steps(&mut self) -> u32 {
        0
    }

    fn choose(&mut self, waiting: &[u32]) -> usize {
        waiting.len() - 1
    }
}

/// A baton of a process that shares nothing, held by thread 0.
fn baton(policy: impl Policy + 'static) -> Baton {
    crate::sections::place();
    let (shm, _) = Shm::create().expect("there is memory");
    let among = Box::new(RoundRobin::new(1));
    Baton::new([Box::new(policy), among], shm, 0, 0)
}

fn task(slot: u32) -> Box<Task> {
    let process = Process::restore(ProcessState::new(0, std::process::id()));
    let tape = crate::tape::Tape::None;
    Box::new(Task::new(machine(), process, slot, sys::gettid(), tape))
}

/// Sleeps until so many threads wait.
fn until_waiting(baton: &Baton, threads: u32) {
    while baton.waiting.load(Ordering::Relaxed) != threads {
        thread::sleep(Duration::from_millis(1));
    }
}

/// The order in which threads 1 to 3, which came in this order, got the baton.
fn order(policy: impl Policy + 'static) -> Vec<u32> {
    let (baton, first) = (baton(policy), task(0));
    let order = Mutex::new(Vec::new());
    thread::scope(|s| {
        for slot in 1..4 {
            let (baton, order) = (&baton, &order);
            s.spawn(move || {
                let me = task(slot);
                let taken = baton.take(&me).expect("nobody else shares");
                assert!(taken.switched && taken.before.is_none(), "{taken:?}");
                order.lock().expect("no panic").push(slot);
                baton.release(&me);
            });
            until_waiting(baton, slot);
        }
        assert!(baton.wanted());
        baton.release(&first);
    });
    assert!(!baton.wanted());
    order.into_inner().expect("no panic")
}

#[test]
fn the_policy_chooses_among_all_that_wait() {
    assert_eq!(order(RoundRobin::new(1)), [1, 2, 3]);
    assert_eq!(order(LastFirst), [3, 2, 1]);
}

#[test]
fn a_thread_without_waiters_has_no_new_turn() {
    let (baton, me) = (baton(RoundRobin::new(1)), task(0));
    assert!(!baton.pass(&me).expect("alone").switched);
    baton.release(&me);
    assert!(!baton.take(&me).expect("alone").switched);
    // A vfork child that was killed while it waited has left its parent without the baton.
    baton.release(&me);
    assert!(!baton.regain(&me).expect("alone").switched);
    assert!(!baton.regain(&me).expect("alone").switched, "it has it");
}

#[test]
fn one_thread_at_a_time_has_it_and_each_comes_again() {
    const TURNS: u32 = 300;
    let (baton, first) = (baton(RoundRobin::new(1)), task(0));
    let busy = AtomicBool::new(false);
    let work = || {
        assert!(!busy.swap(true, Ordering::SeqCst), "two have the baton");
        thread::yield_now();
        busy.store(false, Ordering::SeqCst);
    };
    thread::scope(|s| {
        for slot in 1..4 {
            let (baton, work) = (&baton, &work);
            s.spawn(move || {
                let me = task(slot);
                baton.take(&me).expect("nobody else shares");
                for turn in 0..TURNS {
                    work();
                    match turn % 3 {
                        // As around a call that sleeps.
                        0 => {
                            baton.release(&me);
                            baton.take(&me).expect("nobody else shares");
                        }
                        _ => {
                            baton.pass(&me).expect("nobody else shares");
                        }
                    }
                }
                work();
                baton.release(&me);
            });
        }
        until_waiting(&baton, 3);
        work();
        baton.release(&first);
    });
    assert!(
        baton.take(&first).expect("alone").switched,
        "others had it since"
    );
}

#[test]
#[should_panic(expected = "only the holder releases the baton")]
fn a_thread_without_it_cannot_give_it_up() {
    baton(RoundRobin::new(1)).release(&task(1));
}

#[test]
fn a_forked_child_starts_over_with_its_only_thread() {
    let (baton, go) = (baton(RoundRobin::new(1)), AtomicU32::new(0));
    baton.lock().enqueue(2, &go, &baton.waiting);
    assert!(baton.wanted());
    baton.start_over(1);
    assert!(!baton.wanted());
    assert_eq!(baton.process(), 1);
    assert!(
        !baton.pass(&task(0)).expect("alone").switched,
        "it has the baton"
    );
}
