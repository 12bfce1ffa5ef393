//! Sampling of the order of accesses: while a policy asks for it a thread is stepped, and in front of
//! each access to a word in which threads meet the policy may let another one go first.
//!
//! The words in which threads meet are found on the way ([`meetings`](super::meetings)). The
//! instructions that access them are *sites*, kept in the shared memory ([`sites`](super::sites)), so
//! that the later runs of a hunt know them from the beginning. All of this decides only where switches
//! happen, and must never decide anything else: a switch is recorded where it was made.

use relive_dbt::accesses;
use relive_sched::SharedAccess;

use super::Serial;
use super::sampler::Sampler;
use super::sites::SITES;
use crate::call::words::words;
use crate::call::{self, Call};
use crate::exits::{self, Stepped};
use crate::failure::Result;
use crate::flow::Flow;
use crate::shm::Shm;
use crate::task::Task;

/// Most words of one access that are looked at.
const MOST_WORDS: usize = 64;

impl Serial {
    /// The sampler, if this task's accesses are to be looked at now.
    pub(super) fn sampler(&self, task: &Task) -> Option<&Sampler> {
        let sampler = self.sampler.as_ref()?;
        (self.baton.shared(task) && self.baton.samples()).then_some(sampler)
    }

    /// Steps a thread while the policy samples, up to a safe point. Also while no other waits: the
    /// accesses of the thread that comes last are to be known too.
    pub(super) fn sample_on(&self, task: &mut Task, sampler: &Sampler) -> Result<Flow> {
        while let Some(mut gives_way) = self.baton.look(task.slot) {
            let meeting = meeting(&self.shm, task, sampler)?;
            if let Some(access) = meeting {
                if self.baton.awaits_others(task.slot, access) {
                    sampler.await_sleepers(|| !self.baton.awaits_others(task.slot, access));
                }
                gives_way |= self.baton.give_way(task.slot, access);
                tracing::debug!(
                    target: "sched",
                    thread = task.index,
                    site = format_args!("{:#x}", access.site),
                    word = format_args!("{:#x}", access.word * 8),
                    access.writes,
                    gives_way,
                    "meeting"
                );
            }
            if gives_way {
                self.switch(task)?;
                while self.baton.gave_up(task.slot)
                    && sampler.await_sleepers(|| self.baton.gives_way_again(task.slot))
                {
                    self.switch(task)?;
                }
                if task.ctx.pending != 0 {
                    return Ok(Flow::Continue);
                }
            }
            if let Some(access) = meeting {
                self.baton.makes(task.slot, access);
            }
            if let Stepped::Handled { flow, .. } = exits::step(task)? {
                return Ok(flow);
            }
            if task.ctx.pending != 0 || !task.exact {
                return Ok(Flow::Continue);
            }
        }
        Ok(Flow::Continue)
    }
}

/// The access of the task's next instruction to a word in which threads meet.
///
/// # Errors
/// As [`crate::memory::Memory::with_code`].
pub fn meeting(shm: &Shm, task: &Task, sampler: &Sampler) -> Result<Option<SharedAccess>> {
    let site = task.ctx.rip;
    if sampler.meetings().is_quiet(site) {
        return Ok(None);
    }
    let accesses = {
        let mut memory = task.machine().memory();
        let mut all = memory.with_code(true, |_, code| accesses(code, &task.ctx))?;
        if all.is_empty() {
            if call::is_next(&task.ctx) {
                drop(memory);
                return Ok(call_meeting(shm, task, sampler));
            }
            sampler.meetings().note_quiet(site);
        }
        all.retain(|access| memory.space.may_write(access.addr));
        all
    };
    let sites = SITES.of(shm);
    let mut met = None;
    for access in accesses {
        let words = access.addr / 8..=access.addr.saturating_add(access.len.max(1) - 1) / 8;
        for word in words.take(MOST_WORDS) {
            let writes = access.writes;
            let access = SharedAccess { site, word, writes };
            let (meets, others) = sampler.meetings().note(task.index, access);
            if !others.is_empty() {
                others.iter().for_each(|&other| sites.add(other));
                sites.add(site);
            }
            if meets || sites.contains(site) {
                met.get_or_insert(access);
            }
        }
    }
    Ok(met)
}

/// The access of a call to what threads share beside memory, if they meet in it.
fn call_meeting(shm: &Shm, task: &Task, sampler: &Sampler) -> Option<SharedAccess> {
    let (call, site) = (Call::at(&task.ctx), task.ctx.rip);
    let is_known = SITES.of(shm).contains(site);
    let mut met = None;
    for (word, writes) in words(call.nr, &call.args) {
        let access = SharedAccess { site, word, writes };
        let (meets, _) = sampler.meetings().note(task.index, access);
        if meets || is_known || word >= SharedAccess::ANY_MEMORY {
            met.get_or_insert(access);
        }
    }
    met
}
