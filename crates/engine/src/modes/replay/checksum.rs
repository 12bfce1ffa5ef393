//! Checksums of guest memory during a replay, for `relive verify`: two replays with
//! different translations must see the same memory at the same events.

use crate::broker::{self, Proc, Sum};
use crate::failure::{Failure, Result};
use crate::machine::Machine;
use crate::memory::page_list::{MemorySum, PageRange};
use crate::modes::replay::hook_state::with;
use crate::task::Task;

/// How often checksums are taken. They go to the supervisor: a replay writes to no file.
pub struct Checksums {
    interval: ChecksumInterval,
    next: u64,
}

/// Events between two checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChecksumInterval {
    /// So many at least.
    pub events: u64,
    /// More where there is much memory, so that the sums take no longer than the replay itself.
    pub by_memory: bool,
}

/// An event takes a replay about as long as the sum over so many pages.
const PAGES_OF_EVENT: u64 = 4;

impl ChecksumInterval {
    /// As text of the environment, which [`Checksums::requested`] reads.
    #[must_use]
    pub fn to_text(self) -> String {
        let unit = if self.by_memory { "+" } else { "" };
        format!("{}{unit}", self.events)
    }

    fn parse(text: &str) -> Option<Self> {
        let (events, by_memory) = match text.strip_suffix('+') {
            Some(events) => (events, true),
            None => (text, false),
        };
        let events = events.parse().ok().filter(|&n| n > 0)?;
        Some(Self { events, by_memory })
    }

    /// Behind a sum over so many pages.
    fn behind(self, pages: u64) -> u64 {
        match self.by_memory {
            true => self.events.max(pages / PAGES_OF_EVENT),
            false => self.events,
        }
    }
}

/// Name of the variable.
pub const VARIABLE: &str = "RELIVE_CHECKSUMS";

impl Checksums {
    /// The interval that the environment asks for.
    #[must_use]
    pub fn requested() -> Option<Self> {
        let interval = ChecksumInterval::parse(&std::env::var(VARIABLE).ok()?)?;
        Some(Self {
            interval,
            next: interval.events,
        })
    }

    /// Takes a checksum if `events` of this process have gone by since the last one.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub fn tick(&mut self, task: &Task, events: u64) -> Result<()> {
        if events < self.next {
            return Ok(());
        }
        self.take(task, events)
    }

    /// Takes a checksum now.
    ///
    /// # Errors
    /// The supervisor is gone.
    pub fn take(&mut self, task: &Task, events: u64) -> Result<()> {
        let MemorySum { sum, pages } = memory(task.machine())?;
        self.next = events + self.interval.behind(pages);
        broker::report(Sum {
            process: task.process.index,
            thread: task.index,
            event: events,
            tick: task.ctx.ticks(),
            memory: sum,
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
pub(super) fn memory(machine: &Machine) -> Result<MemorySum> {
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
    Ok(memory(machine)?
        .sum
        .wrapping_add(tasks.map(Task::sum).fold(0, u64::wrapping_add)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_grows_with_memory_unless_somebody_has_chosen_it() {
        for (by_memory, expected) in [(true, [500, 500, 16_384]), (false, [500; 3])] {
            let interval = ChecksumInterval {
                events: 500,
                by_memory,
            };
            assert_eq!(ChecksumInterval::parse(&interval.to_text()), Some(interval));
            assert_eq!(
                [0, 2000, 65_536].map(|pages| interval.behind(pages)),
                expected
            );
        }
        for text in ["", "0", "+", "0+", "5-"] {
            assert_eq!(ChecksumInterval::parse(text), None, "{text}");
        }
    }
}
