//! The baton of a process that shares memory with others: it becomes a member of their group, and has its
//! turns with the group's baton. Must never hold the group's baton without the process's.

use std::sync::atomic::Ordering;

use super::{Baton, Predecessor, Taken};
use crate::failure::{Failure, Result};
use crate::ids;
use crate::image_stream::CHECKPOINTS;
use crate::sharing::changes::{CHANGES, FileRange, Since};
use crate::sharing::group::{GROUP, Group, Keepers};
use crate::sharing::processes::{MAX, PROCESSES, ProcessSlot, standing};
use crate::task::Task;

impl Baton {
    /// The process that the address space belongs to.
    pub fn process(&self) -> u32 {
        self.process.load(Ordering::Relaxed)
    }

    pub(super) fn slot(&self) -> Option<&ProcessSlot> {
        PROCESSES.of(&self.shm).get(self.process())
    }

    pub(super) fn group(&self) -> &Group {
        GROUP.of(&self.shm)
    }

    pub(super) fn standing(&self) -> u32 {
        self.slot()
            .map_or(standing::PRIVATE, |s| s.standing.load(Ordering::Acquire))
    }

    /// Whether it runs with the group's baton.
    pub fn is_member(&self) -> bool {
        self.standing() == standing::MEMBER
    }

    /// Whether the turn of the process towards others that share its memory is to end.
    pub fn is_hurried(&self) -> bool {
        // Each call asks. That others wait is known by one word; most recordings have no members.
        self.group().is_hurried() && self.is_member()
    }

    /// The slot of a process that is about to share memory.
    fn sharing_slot(&self, process: u32) -> Result<&ProcessSlot> {
        PROCESSES.of(&self.shm).get(process).ok_or_else(|| {
            Failure::unsupported(format!(
                "process {process} of the recording shares memory; only the first {} can",
                MAX
            ))
        })
    }

    /// The process is about to map something that others could map too.
    ///
    /// # Errors
    /// Too many processes.
    pub fn meet(&self) -> Result<()> {
        let slot = self.sharing_slot(self.process())?;
        if slot.standing.load(Ordering::Acquire) == standing::PRIVATE {
            slot.pid.store(self.owner(), Ordering::Release);
            slot.can_be_asked();
            // Earlier changes are in the content that it will map.
            self.has_heard(CHANGES.of(&self.shm).told());
        }
        Ok(())
    }

    /// Makes the process a member, at a safe point; the turn that it waits for must be
    /// logged. `None`: it is one already.
    ///
    /// # Errors
    /// Too many processes.
    pub fn join(&self, task: &Task) -> Result<Option<Taken>> {
        let slot = self.sharing_slot(self.process())?;
        if self.is_member() {
            return Ok(None);
        }
        slot.pid.store(self.owner(), Ordering::Release);
        slot.become_one(standing::JOINING);
        self.first_turn(task).map(Some)
    }

    /// The turn at hand of this process.
    pub fn present(&self) -> Predecessor {
        Predecessor {
            process: self.process(),
            turn: self.slot().map(|s| s.turns.load(Ordering::Relaxed)),
        }
    }

    /// The process is a member no more: it ends.
    pub fn leave(&self, task: &Task) {
        if let Some(slot) = self.slot()
            && slot.become_private() == standing::MEMBER
        {
            let _ = CHECKPOINTS.of(&self.shm).group_changes();
            self.release_group(task);
        }
    }

    /// Before a fork: the child begins with the same maps, as process `process`. Says whether
    /// it will be a member.
    ///
    /// # Errors
    /// Too many processes.
    pub fn expect_child(&self, process: u32, shares: bool) -> Result<bool> {
        let standing = self.standing();
        if !shares || standing == standing::PRIVATE {
            return Ok(false);
        }
        let child = self.sharing_slot(process)?;
        let joins = standing == standing::MEMBER;
        match joins {
            true => drop(child.become_one(standing::JOINING)),
            false => child.can_be_asked(),
        }
        Ok(joins)
    }

    /// The forked child has this kernel pid, or there is none.
    pub fn child_is(&self, process: u32, pid: Option<u32>) {
        let Some(slot) = PROCESSES.of(&self.shm).get(process) else {
            return;
        };
        match pid {
            Some(pid) => slot.pid.store(pid, Ordering::Release),
            None => {
                slot.become_one(standing::PRIVATE);
            }
        }
    }

    /// The first turn of a member: a forked child, or one that has just become one.
    ///
    /// # Errors
    /// As [`Baton::take`].
    pub fn first_turn(&self, task: &Task) -> Result<Taken> {
        Ok(Taken {
            switched: true,
            before: self.take_group(task)?,
        })
    }

    /// A vfork child has left the parent's memory, with the baton or, if it was killed while
    /// it waited, without.
    ///
    /// # Errors
    /// As [`Baton::take`].
    pub fn regain(&self, task: &Task) -> Result<Taken> {
        if self.lock().holder != Some(task.slot) {
            return self.take(task);
        }
        if !self.is_member() {
            return Ok(Taken::default());
        }
        let group = self.group();
        group.forget(self.process(), ids::thread_of(task.tid));
        if group.is_held_by(self.process()) {
            group.keep(self.process(), keepers(task));
            return Ok(Taken::default());
        }
        let before = self.take_group(task)?;
        Ok(Taken {
            switched: before.is_some(),
            before,
        })
    }

    /// After exec: the new program maps nothing that others map, and runs by itself, in a new
    /// turn.
    pub fn after_exec(&self) {
        let (Some(slot), group) = (self.slot(), self.group()) else {
            return;
        };
        let turn = slot.turns.load(Ordering::Relaxed);
        let member = slot.become_private() == standing::MEMBER;
        slot.programs.fetch_add(1, Ordering::AcqRel);
        slot.turns.store(turn + 1, Ordering::Release);
        if member {
            let _ = CHECKPOINTS.of(&self.shm).group_changes();
            let keepers = [ids::process(), 0];
            group.release(self.process(), keepers, turn, |ids| {
                self.among().choose(ids)
            });
        }
    }

    /// The threads of an address space change while it has the baton (vfork).
    pub fn keep(&self, keepers: Keepers) {
        let group = self.group();
        if self.is_member() && group.is_held_by(self.process()) {
            group.keep(self.process(), keepers);
        }
    }

    /// Whether another process has killed this one, and left it to itself to end.
    pub fn is_being_killed(&self) -> bool {
        self.slot()
            .is_some_and(|s| s.killed.load(Ordering::Relaxed) != 0)
    }

    /// Whether a holder of the group's baton has died since this was last asked: its last writes
    /// to shared memory are on no tape.
    pub fn lost_a_holder(&self) -> bool {
        let deaths = self.group().deaths();
        self.is_member() && self.deaths.swap(deaths, Ordering::Relaxed) != deaths
    }

    /// Whether it is the only member of the group that lives, or is to be one.
    pub fn is_alone_in_group(&self) -> bool {
        let processes = (0..self.shm.processes()).filter(|index| *index != self.process());
        let mut others = processes.filter_map(|index| PROCESSES.of(&self.shm).get(index));
        self.is_member() && !others.any(|slot| slot.membership().member && slot.may_share())
    }

    /// The process has heard of so many changes of files: the others are in the content that it maps.
    pub fn has_heard(&self, changes: u64) {
        self.heard.store(changes, Ordering::Relaxed);
    }

    /// The changes that members have made to files since this process last asked; it has the
    /// group's baton.
    pub fn news(&self) -> Since {
        if !self.is_member() {
            return Since::Parts(Vec::new());
        }
        let changes = CHANGES.of(&self.shm);
        let heard = self.heard.swap(changes.told(), Ordering::Relaxed);
        changes.since(heard)
    }

    /// Tells the other members of a change to a file by this one, which has the group's baton.
    pub fn tell(&self, part: FileRange) {
        let changes = CHANGES.of(&self.shm);
        changes.tell(part);
        // Its own changes are no news to itself.
        let last = changes.told() - 1;
        let (old, new) = (Ordering::Relaxed, Ordering::Relaxed);
        let _ = self.heard.compare_exchange(last, last + 1, old, new);
    }

    pub(super) fn take_group(&self, task: &Task) -> Result<Option<Predecessor>> {
        let before = self.group().take(self.process(), keepers(task))?;
        if self.is_member() {
            return Ok(before);
        }
        // The first turn as a member is logged in any case: others follow the one before.
        if let Some(slot) = self.slot() {
            slot.become_one(standing::MEMBER);
            slot.joins(CHECKPOINTS.of(&self.shm).group_changes());
        }
        Ok(Some(before.unwrap_or(self.present())))
    }

    pub(super) fn release_group(&self, task: &Task) {
        if let Some(slot) = self.slot() {
            let turn = end_turn(slot, task);
            self.group()
                .release(self.process(), keepers(task), turn, |ids| {
                    self.among().choose(ids)
                });
        }
    }

    pub(super) fn pass_group(&self, task: &Task) -> Result<Option<Predecessor>> {
        let (group, Some(slot)) = (self.group(), self.slot()) else {
            return Ok(None);
        };
        let turn = end_turn(slot, task);
        group.pass(self.process(), keepers(task), turn, |ids| {
            self.among().choose(ids)
        })
    }
}

/// Notes the state that others may need while a member does not run; returns its turn.
fn end_turn(slot: &ProcessSlot, task: &Task) -> u32 {
    let locked = crate::task::ending::holds_locks(task);
    slot.locked.store(locked.into(), Ordering::Release);
    slot.turns.load(Ordering::Relaxed)
}

/// The threads that stand for a task that holds the group's baton.
pub fn keepers(task: &Task) -> Keepers {
    let parent = task.vforked.as_ref().map_or(0, |p| p.keeper);
    [ids::thread_of(task.tid), parent]
}
