//! How many processes of a replay run side by side.
//!
//! The results of wait(2) are on a parent's tape, so a replayed parent need not wait for its
//! children. Left to itself a replay of make would start every compiler of a build at once: they
//! would take the caches from each other, and memory that the machine may not have. So where the
//! recorded parent learnt that a child had ended, the replayed one waits for that child too, as
//! long as there is other work for all cores. It waits for an event that came before in the
//! recording, as all waits of a replay do: so no processes can wait in a circle.

use std::sync::atomic::{AtomicU32, Ordering};

use relive_host::sys;

use super::hook_state;
use crate::broker::need_supervisor;
use crate::failure::{FailureClass, Result};
use crate::machine::Machine;
use crate::section::{Section, Shareable};
use crate::sharing::processes::PROCESSES;
use crate::sharing::processes::ProcessSlot;
use crate::shm::Shm;

/// How many are to run at once, and how many do. Lies in the shared memory.
#[repr(C)]
pub struct Concurrency {
    /// Processes that have begun and not ended.
    pub running: AtomicU32,
    /// Those of them that wait for a child here.
    waiting: AtomicU32,
    /// As many as there are cores.
    most: AtomicU32,
    /// Those that begin with images, and have memory by now.
    restored: AtomicU32,
}

/// How many processes of the replay run side by side.
pub static CONCURRENCY: Section<Concurrency> = Section::new();

// SAFETY: all of it is atomic, and zeros are a value.
unsafe impl Shareable for Concurrency {}

impl Concurrency {
    /// The first process begins.
    pub fn begin(&self) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.most.store(cores as u32, Ordering::Release);
        self.running.store(1, Ordering::Release);
    }

    /// Whether there is a core for each process that does not wait, and for so many more.
    fn has_room(&self, more: u32) -> bool {
        let waiting = self.waiting.load(Ordering::Acquire);
        let busy = self.running.load(Ordering::Acquire).wrapping_sub(waiting);
        busy + more <= self.most.load(Ordering::Acquire)
    }
}

/// The replay of a process is over: others may use its core.
pub fn process_ends(machine: &Machine) {
    crate::stats::end();
    if let Some(shm) = machine.shm.as_ref() {
        let running = &CONCURRENCY.of(shm).running;
        running.fetch_sub(1, Ordering::AcqRel);
        shm.unregister(std::process::id());
        tell(shm);
    }
}

/// The guest has learnt that its child `pid` (in the recording) has ended.
///
/// # Errors
/// The process that replays the child is gone.
pub fn has_ended(pid: u32) -> Result<()> {
    let Some(shm) = hook_state::machine().shm.as_ref() else {
        return Ok(());
    };
    let child = hook_state::with(|s| s.children.remove(&pid));
    match child.and_then(|child| PROCESSES.of(shm).get(child)) {
        Some(slot) if !CONCURRENCY.of(shm).has_room(0) => wait(shm, slot),
        _ => Ok(()),
    }
}

fn wait(shm: &Shm, child: &ProcessSlot) -> Result<()> {
    let (wake, concurrency) = (&shm.header().wake, CONCURRENCY.of(shm));
    concurrency.waiting.fetch_add(1, Ordering::AcqRel);
    tell(shm);
    loop {
        let seen = wake.load(Ordering::Acquire);
        // Several may see the same room: then they are a few too many for a while.
        if child.ended.load(Ordering::Acquire) != 0 || concurrency.has_room(1) {
            break;
        }
        wait_a_while(shm, seen)?;
    }
    concurrency.waiting.fetch_sub(1, Ordering::AcqRel);
    Ok(())
}

/// The process has the memory of its image; waits until all of so many have it. What they map shared is one: none may
/// change it before.
///
/// # Errors
/// One of them is gone.
pub fn await_restored(shm: &Shm, all: u32) -> Result<()> {
    let (wake, restored) = (&shm.header().wake, &CONCURRENCY.of(shm).restored);
    restored.fetch_add(1, Ordering::AcqRel);
    tell(shm);
    loop {
        let seen = wake.load(Ordering::Acquire);
        if restored.load(Ordering::Acquire) >= all {
            return Ok(());
        }
        wait_a_while(shm, seen)?;
    }
}

/// Waits for something to happen in the tree behind what was `seen`, a while at most.
///
/// # Errors
/// Another process has failed, or the supervisor is gone: nobody would end this one.
pub fn wait_a_while(shm: &Shm, seen: u32) -> Result<()> {
    sys::futex_wait(&shm.header().wake, seen, Some(100));
    if shm.failure().is_some() {
        return Err(FailureClass::Elsewhere.into());
    }
    need_supervisor()
}

/// Wakes all processes that wait for something to happen in the tree.
pub fn tell(shm: &Shm) {
    let wake = &shm.header().wake;
    wake.fetch_add(1, Ordering::AcqRel);
    sys::futex_wake(wake, u32::MAX >> 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_until_all_cores_have_something_to_do() {
        let words = |running, waiting| Concurrency {
            running: AtomicU32::new(running),
            waiting: AtomicU32::new(waiting),
            most: AtomicU32::new(2),
            restored: AtomicU32::new(0),
        };
        assert!(words(1, 0).has_room(0) && words(2, 0).has_room(0));
        assert!(!words(3, 0).has_room(0) && !words(3, 1).has_room(1));
        assert!(words(3, 2).has_room(1) && words(9, 8).has_room(1));
    }

    #[test]
    fn a_parent_waits_for_its_child_or_for_a_core() {
        crate::sections::place();
        let (shm, _fd) = Shm::create().expect("shared memory");
        let concurrency = CONCURRENCY.of(&shm);
        concurrency.begin();
        let child = |index| PROCESSES.of(&shm).get(index).expect("a place");
        for ends in [true, false] {
            concurrency.running.store(100_000, Ordering::Release);
            std::thread::scope(|scope| {
                let parent = scope.spawn(|| wait(&shm, child(u32::from(ends))));
                while concurrency.waiting.load(Ordering::Acquire) == 0 {
                    std::thread::yield_now();
                }
                assert!(!parent.is_finished(), "all cores have something to do");
                match ends {
                    true => child(1).over(1, true),
                    false => concurrency.running.store(1, Ordering::Release),
                }
                tell(&shm);
                let waited = parent.join().expect("no panic");
                waited.expect("no process is gone");
            });
            assert_eq!(concurrency.waiting.load(Ordering::Acquire), 0);
        }
    }
}
