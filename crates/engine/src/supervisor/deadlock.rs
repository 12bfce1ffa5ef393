//! Deadlocks of a recorded tree, seen from outside: threads asleep in futex(2) without a time limit,
//! of which each waits for a lock of the next one, or all threads of the tree.
//!
//! `/proc` tells the call in which a thread sleeps, and how often it has slept: the same number at two looks
//! means that it has slept from one to the other. So memory that is read between them is that of a moment
//! at which all of these threads slept. Nothing here may be taken for more than that: a thread that a timer
//! or a process outside of the tree may wake is not deadlocked.

mod holder;
mod inspection;

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use self::inspection::{Awaited, Tree, WaitingThread};
use crate::alarms::ALARMS;
use crate::shm::Shm;

/// Time between two looks, at least.
const BETWEEN: Duration = Duration::from_millis(50);
/// Looks take at most this part of the time.
const PART: u32 = 50;
/// How long the threads of a circle sleep, while others run: that they hold the locks is read from words
/// whose meaning is the C library's.
const LONG: Duration = Duration::from_secs(1);

/// Threads that wait for each other.
#[derive(Debug, Clone)]
pub struct Deadlock {
    /// In the order in which they wait; the last one waits for the first.
    circle: Vec<WaitingThread>,
    /// All threads of the tree sleep, in a circle or not.
    all: Option<usize>,
}

/// Looks for deadlocks from time to time.
pub struct Watch {
    next: Instant,
    /// The sleepers of the last look, and since when.
    sleepers: BTreeMap<u32, (WaitingThread, Instant)>,
}

impl Watch {
    /// Of a recording that begins now.
    pub fn new() -> Self {
        Self {
            next: Instant::now() + BETWEEN,
            sleepers: BTreeMap::new(),
        }
    }

    /// Looks, if it is time to; the deadlock that is there.
    pub fn look(&mut self, shm: &Shm) -> Option<Deadlock> {
        let now = Instant::now();
        if now < self.next {
            return None;
        }
        let tree = inspection::tree();
        let found = tree.and_then(|tree| self.seen(tree, now, ALARMS.of(shm).any()));
        let took = now.elapsed();
        self.next = now + took + BETWEEN.max(took * PART);
        found
    }

    /// A look at `now` has seen this tree.
    fn seen(&mut self, tree: Tree, now: Instant, alarms: bool) -> Option<Deadlock> {
        let mut before = std::mem::take(&mut self.sleepers);
        for thread in tree.asleep {
            let since = match before.remove(&thread.tid) {
                Some((same, since)) if same == thread => since,
                _ => now,
            };
            self.sleepers.insert(thread.tid, (thread, since));
        }
        let slept = |time| {
            let sleepers = self.sleepers.values();
            sleepers.filter(move |(_, since)| now.duration_since(*since) >= time)
        };
        let all = slept(BETWEEN).count();
        let futexes = slept(BETWEEN).any(|(thread, _)| matches!(thread.wait, Awaited::Word { .. }));
        if all == tree.threads && futexes && !alarms {
            let circle = circle(slept(BETWEEN).map(|(thread, _)| thread));
            return Some(Deadlock {
                circle: circle.unwrap_or_default(),
                all: Some(all),
            });
        }
        let circle = circle(slept(LONG).map(|(thread, _)| thread))?;
        Some(Deadlock { circle, all: None })
    }
}

/// Threads that wait for each other's locks, if there are some.
fn circle<'a>(threads: impl Iterator<Item = &'a WaitingThread>) -> Option<Vec<WaitingThread>> {
    let waits: BTreeMap<u32, &WaitingThread> = threads.map(|thread| (thread.tid, thread)).collect();
    waits.keys().find_map(|&start| {
        let mut way: Vec<u32> = vec![start];
        loop {
            let next = waits.get(way.last()?)?.wait.holder()?;
            match way.iter().position(|&tid| tid == next) {
                Some(0) => break,
                // The circle is found from one of its own.
                Some(_) => return None,
                None => way.push(next),
            }
        }
        Some(way.iter().map(|tid| waits[tid].clone()).collect())
    })
}

impl Deadlock {
    /// Whether all threads of the tree sleep.
    pub fn is_of_all(&self) -> bool {
        self.all.is_some()
    }
}

impl fmt::Display for Deadlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadlock: ")?;
        let Some(first) = self.circle.first() else {
            let count = self.all.unwrap_or_default();
            return match count {
                1 => f.write_str("its only thread waits, and none is left to wake it"),
                _ => write!(f, "all {count} threads wait, and none is left to wake them"),
            };
        };
        if self.circle.len() == 1 {
            return write!(f, "{first} waits for a lock of its own");
        }
        for (n, thread) in self.circle.iter().enumerate() {
            let holder = self.circle.get(n + 1).unwrap_or(first);
            let and = if n == 0 { "" } else { ", " };
            write!(f, "{and}{thread} waits for a lock of {holder}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: u32, holder: Option<u32>) -> WaitingThread {
        let wait = Awaited::Word {
            addr: 0x1000 + u64::from(tid),
            holder,
        };
        WaitingThread {
            tid,
            name: "guest".into(),
            wait,
            slept: 7,
        }
    }

    /// Two looks at the same sleepers, `time` apart.
    fn seen(
        asleep: &[WaitingThread],
        threads: usize,
        time: Duration,
        alarms: bool,
    ) -> Option<String> {
        let mut watch = Watch::new();
        let now = Instant::now();
        let tree = || Tree {
            threads,
            asleep: asleep.to_vec(),
        };
        assert!(
            watch.seen(tree(), now, alarms).is_none(),
            "one look is none"
        );
        let found = watch.seen(tree(), now + time, alarms);
        found.map(|deadlock| deadlock.to_string())
    }

    #[test]
    fn a_circle_is_told_though_others_run() {
        let two = [thread(5, Some(7)), thread(7, Some(5)), thread(8, Some(5))];
        assert_eq!(seen(&two, 9, BETWEEN, false), None);
        assert_eq!(
            seen(&two, 9, LONG, true).as_deref(),
            Some(
                "deadlock: guest (5) waits for a lock of guest (7), guest (7) waits for a lock of guest (5)"
            )
        );
        let own = [thread(5, Some(5))];
        assert_eq!(
            seen(&own, 2, LONG, false).as_deref(),
            Some("deadlock: guest (5) waits for a lock of its own")
        );
    }

    #[test]
    fn a_holder_that_runs_is_no_deadlock() {
        let waiting = [thread(5, Some(7)), thread(8, Some(5))];
        assert_eq!(seen(&waiting, 3, LONG, false), None);
    }

    #[test]
    fn all_asleep_without_an_alarm() {
        let all = [thread(5, None), thread(6, None)];
        assert_eq!(
            seen(&all, 2, BETWEEN, false).as_deref(),
            Some("deadlock: all 2 threads wait, and none is left to wake them")
        );
        assert_eq!(seen(&all, 2, LONG, true), None);
        assert_eq!(seen(&all, 3, LONG, false), None);
    }

    #[test]
    fn a_thread_that_has_run_between_looks_slept_anew() {
        let mut watch = Watch::new();
        let now = Instant::now();
        for n in 0..5 {
            let mut thread = thread(5, Some(5));
            thread.slept += n;
            let tree = Tree {
                threads: 1,
                asleep: vec![thread],
            };
            assert!(watch.seen(tree, now + LONG * n as u32, false).is_none());
        }
    }
}
