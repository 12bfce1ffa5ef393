//! Threads that spin: that do nothing but look at memory until another thread changes it.
//!
//! While recording one thread runs at a time, so a spinning thread holds off the one that it waits
//! for. `pause` and sched_yield(2) announce this; most loops do not. So while others wait a slice
//! is granted in parts, and between two parts the thread is looked at: it is stepped for some
//! instructions, and if it comes round again in the same code, reading the same addresses and
//! changing no memory but its own stack, it gives way.
//!
//! One that is found so in the same place again is known by the memory that it reads there: if that does not
//! change for some rounds it still spins.
//!
//! This is a guess, and only about when to switch: a loop that computes from the same memory
//! loses the rest of its slice. A loop that finds the memory that it reads unchanged when it runs
//! again is looked at ever more seldom, so that this costs it little. It must never decide anything
//! that a replay would have to decide again: a switch is recorded where it was made.

use relive_dbt::{Access, accesses};
use relive_host::{GuestAddr, Reg, copy};

use crate::exits::{self, Stepped};
use crate::failure::Result;
use crate::flow::Flow;
use crate::spin::KnownSpin;
use crate::task::Task;

/// Most instructions to look at.
const MOST_STEPS: usize = 96;
/// The bytes that count as a thread's own stack, below and above its stack pointer.
const STACK: (u64, u64) = (1 << 10, 4 << 10);

/// The result of a look.
pub enum SpinVerdict {
    /// It spins, and is at a safe point.
    Spinning,
    /// It does not, as far as was looked.
    Busy,
    /// Something else came: how the task goes on.
    Other(Flow),
    /// It is to be looked at again after so many ticks.
    OnTrial(i64),
}

/// The accesses of a loop so far.
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
/// A failure of one of the steps.
pub fn look(task: &mut Task) -> Result<SpinVerdict> {
    let start = task.ctx.rip;
    if task.spin.is_busy(start) {
        return Ok(SpinVerdict::Busy);
    }
    if task.exact && task.ctx.pending == 0 {
        match task.spin.known(start) {
            KnownSpin::Spins => return Ok(SpinVerdict::Spinning),
            KnownSpin::OnTrial(ticks) => return Ok(SpinVerdict::OnTrial(ticks)),
            KnownSpin::Unknown => {}
        }
    }
    let mut seen = Seen::default();
    while seen.steps < MOST_STEPS {
        let written = seen.add(task)?;
        let before: Vec<_> = written.iter().map(contents).collect();
        match exits::step(task)? {
            // A look at a clock belongs to many such loops, a system call to none.
            Stepped::Handled {
                instruction: true,
                flow: Flow::Continue,
            } if task.exact => {}
            Stepped::Handled { flow, .. } => return Ok(SpinVerdict::Other(flow)),
            Stepped::Made => {}
        }
        if task.ctx.pending != 0 {
            return Ok(SpinVerdict::Busy);
        }
        let changed = |(a, was): (&Access, &Vec<u8>)| contents(a) != *was;
        for (access, _) in written.iter().zip(&before).filter(|&p| changed(p)) {
            if !own_stack(task, access.addr) {
                task.spin.note_busy(start);
                return Ok(SpinVerdict::Busy);
            }
            seen.stacked = true;
        }
        if task.ctx.rip == start && seen.comes_round() {
            let waits_for = seen.waits_for(task);
            if waits_for.is_empty() {
                break;
            }
            task.spin.note_spinning(start, &waits_for);
            return Ok(SpinVerdict::Spinning);
        }
    }
    task.spin.note_busy(start);
    Ok(SpinVerdict::Busy)
}

impl Seen {
    /// The instruction at hand: notes its reads, and returns its writes.
    fn add(&mut self, task: &Task) -> Result<Vec<Access>> {
        let mut memory = task.machine().memory();
        let all = memory.with_code(true, |_, code| accesses(code, &task.ctx))?;
        let reads = all.iter().filter(|a| a.reads);
        for at in reads.map(|a| a.addr).filter(|&a| memory.space.may_write(a)) {
            if !self.read.contains(&at) {
                self.read.push(at);
                // The first rounds were too few.
                self.rounds = None;
            }
        }
        self.steps += 1;
        Ok(all.into_iter().filter(|a| a.writes).collect())
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

    /// The memory that another thread may change.
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
