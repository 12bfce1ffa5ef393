//! Checksums of guest memory during a replay, for `relive verify`: two replays with
//! different translations must see the same memory at the same events.

use crate::broker::{self, Proc, Sum};
use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::memory::page_list::PageRange;
use crate::modes::replay::hook_state::with;
use crate::task::Task;

/// How often checksums are taken; from `RELIVE_CHECKSUMS=EVERY`. They go to the supervisor: a
/// replay writes to no file.
pub struct Checksums {
    every: u64,
    next: u64,
}

/// Name of the variable.
pub const VARIABLE: &str = "RELIVE_CHECKSUMS";

impl Checksums {
    /// The interval that the environment asks for.
    #[must_use]
    pub fn requested() -> Option<Self> {
        let value = std::env::var(VARIABLE).ok()?;
        let every = value.parse().ok().filter(|&n| n > 0)?;
        Some(Self { every, next: every })
    }

    /// Takes a checksum if `events` of this process have gone by since the last one.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub fn tick(&mut self, task: &Task, events: u64) -> Result<()> {
        if events < self.next {
            return Ok(());
        }
        self.next = events + self.every;
        self.take(task, events)
    }

    /// Takes a checksum now.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub fn take(&mut self, task: &Task, events: u64) -> Result<()> {
        broker::report(Sum {
            process: task.process.index,
            thread: task.index,
            event: events,
            tick: task.ctx.ticks(),
            memory: memory(task.machine())?,
        })
    }
}

/// This process has just been forked: the list is another one's.
pub(super) fn is_forked() {
    with(|s| s.pages = None);
}

/// Sum over all guest pages that are not all zero, of a hash of address and content.
///
/// # Errors
/// The kernel lists a part of the pages only.
pub(super) fn memory(machine: &Machine) -> Result<u64> {
    let known = with(|s| s.pages.take());
    let pages = known.unwrap_or_else(|| broker::proc_file(Proc::Pagemap));
    let sum = machine.memory().sum(pages.as_ref());
    with(|s| s.pages = Some(pages));
    sum
}

/// Sum over memory and the registers of all threads.
///
/// # Errors
/// The kernel lists a part of the pages only.
pub(super) fn process<'a>(machine: &Machine, tasks: impl Iterator<Item = &'a Task>) -> Result<u64> {
    Ok(memory(machine)?.wrapping_add(tasks.map(Task::sum).fold(0, u64::wrapping_add)))
}

/// Where memory may hold something else than its maps show by themselves ([`Memory::own_pages`]).
///
/// # Errors
/// The kernel does not list them.
///
/// [`Memory::own_pages`]: crate::memory::Memory::own_pages
pub(super) fn own_pages(machine: &Machine) -> Result<Vec<PageRange>> {
    let pages = broker::proc_file(Proc::Pagemap);
    let pages = pages.ok_or_else(|| Failure::setup("the pages of the replay cannot be listed"))?;
    machine.memory().own_pages(Some(&pages))
}
