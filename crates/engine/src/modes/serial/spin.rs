//! Threads that spin: that do nothing but look at memory until another thread changes it.
//!
//! While recording one thread runs at a time, so whoever spins holds off the one that it waits
//! for. `pause` and sched_yield(2) say so; most loops say nothing. So while others wait a slice is
//! granted in parts, and between two parts the thread is looked at: it is stepped for some
//! instructions, and if it comes round again in the same code, reading the same addresses and
//! changing no memory but its own stack, it gives way.
//!
//! This is a guess, and only about when to switch: a loop that computes from the same memory
//! loses the rest of its slice. One that finds what it reads unchanged when it runs again is looked
//! at ever more seldom, so that this costs it little. It must never decide anything that a replay
//! would have to decide again: a switch is recorded where it was made.

use relive_dbt::{Access, accesses};
use relive_host::{GuestAddr, Reg, copy};

use crate::failure::Result;
use crate::machine::machine;
use crate::stops::{self, Step};
use crate::task::{Flow, Task};

/// Ticks of the first part of a slice, for a thread that was not found spinning last time.
const FIRST: i64 = 1 << 10;
/// How much longer each part is than the one before.
const GROWTH: i64 = 4;
/// Ticks of the first part for one that was.
const PATIENCE: i64 = 1 << 6;
/// That many times this is doubled at most, as long as it finds nothing changed: a part is long
/// enough then for switches to cost little.
const MOST_DOUBLINGS: u32 = 8;
/// Most instructions to look at.
const MOST_STEPS: usize = 96;
/// Places where a thread was seen not to spin, and how many looks to leave out there.
const PLACES: usize = 8;
const LEFT_OUT: u8 = 32;
/// Most addresses whose values are compared when a spinning thread runs again.
const MOST_WORDS: usize = 8;
/// What counts as a thread's own stack, below and above its stack pointer.
const STACK: (u64, u64) = (1 << 10, 4 << 10);

/// What is known of one thread.
#[derive(Default)]
pub struct Spin {
    /// Ticks of the slice behind the part at hand.
    left: i64,
    /// Ticks of the part at hand.
    part: i64,
    /// It was found spinning when it last ran, and so many times in a row before, with nothing
    /// changed meanwhile.
    doublings: Option<u32>,
    /// What it looked at then, and what was there.
    words: Vec<(u64, u64)>,
    /// Where it was seen not to spin, and how many looks are left out there.
    busy: [(u64, u8); PLACES],
    next: usize,
}

impl Spin {
    /// A slice without parts, of a thread that nobody can wait for.
    pub fn all(&mut self, ticks: i64) -> i64 {
        self.left = 0;
        self.doublings = None;
        ticks
    }

    /// A new slice of so many ticks; returns the first part.
    pub fn begin(&mut self, ticks: i64) -> i64 {
        let first = match self.doublings {
            Some(n) => PATIENCE << n,
            None => FIRST,
        };
        self.part = first.min(ticks);
        self.left = ticks - self.part;
        self.part
    }

    /// The next part of the slice, if there is one.
    pub fn next_part(&mut self) -> Option<i64> {
        self.doublings = None;
        if self.left == 0 {
            return None;
        }
        self.part = (self.part * GROWTH).min(self.left);
        self.left -= self.part;
        Some(self.part)
    }

    /// Whether something is left of the slice.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.left > 0
    }

    /// Whether a look at this place can be left out.
    fn is_busy(&mut self, pc: u64) -> bool {
        let place = self.busy.iter_mut().find(|(at, n)| *at == pc && *n > 0);
        place.is_some_and(|(_, n)| {
            *n -= 1;
            true
        })
    }

    fn note_busy(&mut self, pc: u64) {
        self.busy[self.next] = (pc, LEFT_OUT);
        self.next = (self.next + 1) % PLACES;
    }

    /// It spins, and reads these addresses.
    fn note_spinning(&mut self, addresses: &[u64]) {
        let words: Vec<_> = addresses
            .iter()
            .take(MOST_WORDS)
            .filter_map(|&at| Some((at, word(at)?)))
            .collect();
        let unchanged = self.doublings.filter(|_| words == self.words);
        self.doublings = Some(unchanged.map_or(0, |n| (n + 1).min(MOST_DOUBLINGS)));
        self.words = words;
    }

    /// It runs again: is what it waited for still as it was?
    pub fn wakes(&mut self) {
        if self.doublings.is_some() && self.words.iter().any(|&(at, was)| word(at) != Some(was)) {
            self.doublings = Some(0);
            self.words.clear();
        }
    }
}

fn word(at: u64) -> Option<u64> {
    let bytes = copy::read_array::<8>(GuestAddr(at)).ok()?;
    Some(u64::from_le_bytes(bytes))
}

/// What a look has found.
pub enum Found {
    /// It spins, and is at a safe point.
    Spinning,
    /// It does not, as far as was looked.
    Busy,
    /// Something else came: what becomes of the task.
    Other(Flow),
}

/// What has been seen of a loop.
#[derive(Default)]
struct Seen {
    /// Addresses read from memory that may be written, in the first rounds.
    read: Vec<u64>,
    steps: usize,
    /// Steps of the first rounds, once the thread has come round.
    rounds: Option<usize>,
    /// It has written to its own stack.
    stacked: bool,
}

/// Steps a thread to see whether it spins.
///
/// # Errors
/// What the engine meets on the way.
pub fn look(task: &mut Task) -> Result<Found> {
    let start = task.ctx.rip;
    if task.spin.is_busy(start) {
        return Ok(Found::Busy);
    }
    let mut seen = Seen::default();
    while seen.steps < MOST_STEPS {
        let written = seen.add(task);
        let before: Vec<_> = written.iter().map(contents).collect();
        match stops::step(task)? {
            // A look at a clock belongs to many such loops, a system call to none.
            Step::Handled {
                instruction: true,
                flow: Flow::Continue,
            } if task.exact => {}
            Step::Handled { flow, .. } => return Ok(Found::Other(flow)),
            Step::Made => {}
        }
        if task.ctx.pending != 0 {
            return Ok(Found::Busy);
        }
        let changed = |(a, was): (&Access, &Vec<u8>)| contents(a) != *was;
        for (access, _) in written.iter().zip(&before).filter(|&p| changed(p)) {
            if !own_stack(task, access.addr) {
                task.spin.note_busy(start);
                return Ok(Found::Busy);
            }
            seen.stacked = true;
        }
        if task.ctx.rip == start && seen.comes_round() {
            let waits_for = seen.waits_for(task);
            if waits_for.is_empty() {
                break;
            }
            task.spin.note_spinning(&waits_for);
            return Ok(Found::Spinning);
        }
    }
    task.spin.note_busy(start);
    Ok(Found::Busy)
}

impl Seen {
    /// The instruction at hand: notes what it reads, and returns what it writes.
    fn add(&mut self, task: &Task) -> Vec<Access> {
        let mut memory = machine().memory();
        let all = memory.with_code(true, |_, code| accesses(code, &task.ctx));
        let reads = all.iter().filter(|a| a.reads);
        for at in reads.map(|a| a.addr).filter(|&a| memory.space.may_write(a)) {
            if !self.read.contains(&at) {
                self.read.push(at);
                // The first rounds were too few.
                self.rounds = None;
            }
        }
        self.steps += 1;
        all.into_iter().filter(|a| a.writes).collect()
    }

    /// Back where it began. `true` if that was the end of as many steps as the first rounds took,
    /// with no other address read.
    fn comes_round(&mut self) -> bool {
        match self.rounds {
            Some(first) => self.steps >= 2 * first,
            None => {
                self.rounds = Some(self.steps);
                false
            }
        }
    }

    /// What another thread may change.
    fn waits_for(self, task: &Task) -> Vec<u64> {
        let foreign = |at: &u64| !self.stacked || !own_stack(task, *at);
        self.read.iter().copied().filter(foreign).collect()
    }
}

fn own_stack(task: &Task, at: u64) -> bool {
    let sp = task.ctx.reg(Reg::Rsp);
    (sp.saturating_sub(STACK.0)..sp.saturating_add(STACK.1)).contains(&at)
}

fn contents(access: &Access) -> Vec<u8> {
    let mut bytes = vec![0; access.len.min(64) as usize];
    if copy::read(GuestAddr(access.addr), &mut bytes).is_err() {
        bytes.clear();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(spin: &mut Spin, ticks: i64) -> Vec<i64> {
        let mut all = vec![spin.begin(ticks)];
        while let Some(part) = spin.next_part() {
            all.push(part);
        }
        all
    }

    #[test]
    fn a_slice_is_granted_whole_in_growing_parts() {
        let mut spin = Spin::default();
        assert_eq!(parts(&mut spin, 100), [100]);
        assert_eq!(
            parts(&mut spin, 10_000),
            [1 << 10, 4 << 10, 10_000 - (5 << 10)]
        );
        for ticks in [1, FIRST, FIRST + 1, relive_sched::SLICE_MAX as i64] {
            assert_eq!(parts(&mut spin, ticks).iter().sum::<i64>(), ticks);
            assert!(!spin.goes_on());
        }
        assert_eq!(spin.all(7), 7);
        assert_eq!(spin.next_part(), None);
    }

    #[test]
    fn who_finds_nothing_changed_is_looked_at_more_seldom() {
        let mut spin = Spin::default();
        spin.note_spinning(&[]);
        assert_eq!(spin.begin(1 << 20), PATIENCE);
        for n in 1..20 {
            spin.wakes();
            spin.note_spinning(&[]);
            assert_eq!(spin.begin(1 << 20), PATIENCE << n.min(MOST_DOUBLINGS));
        }
        spin.next_part();
        assert_eq!(spin.begin(1 << 20), FIRST, "it did something else");
    }

    #[test]
    fn who_finds_a_change_is_looked_at_soon() {
        let mut spin = Spin::default();
        spin.note_spinning(&[]);
        spin.note_spinning(&[]);
        spin.words = vec![(0, 1)];
        spin.wakes();
        assert_eq!(spin.begin(1 << 20), PATIENCE);
    }

    #[test]
    fn a_busy_place_is_left_out_for_a_while() {
        let mut spin = Spin::default();
        spin.note_busy(7);
        assert_eq!(
            (0..100).filter(|_| spin.is_busy(7)).count(),
            usize::from(LEFT_OUT)
        );
        assert!(!spin.is_busy(8));
        (0..PLACES as u64).for_each(|pc| spin.note_busy(100 + pc));
        assert!(!spin.is_busy(7));
    }
}
