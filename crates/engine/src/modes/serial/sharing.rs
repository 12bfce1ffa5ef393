//! The moments at which a recorded process begins, and ceases, to share memory with others.

use super::Serial;
use super::baton::Taken;
use crate::call::Call;
use crate::failure::Result;
use crate::image_stream::CHECKPOINTS;
use crate::kernel::enter::enter_kernel;
use crate::kernel::refuse::unsupported;
use crate::mode::FileUse;
use crate::sharing::changes::CHANGES;
use crate::sharing::processes::{PROCESSES, ProcessSlot};
use crate::sharing::users::{USERS, no_room};
use crate::task::Task;

/// The turn with which a call goes on, before it is logged: a call may have one only, and may
/// wait several times.
pub struct Owed {
    taken: Taken,
    /// Turns of others that it follows besides.
    after: Vec<(u32, Option<u32>)>,
    /// Processes that were met already.
    met: Vec<u32>,
}

impl Owed {
    /// In a call that has not waited yet.
    pub fn new(serial: &Serial) -> Self {
        Self {
            taken: serial.first_turn(),
            after: Vec::new(),
            met: Vec::new(),
        }
    }

    /// The process becomes a member, if it is none.
    ///
    /// # Errors
    /// Too many processes.
    pub fn join(&mut self, serial: &Serial, task: &mut Task) -> Result<()> {
        if let Some(taken) = serial.baton.join(task)? {
            self.taken = self.taken.and_then(taken);
            // The slice of a thread without waiters is long.
            serial.new_slice(task);
        }
        Ok(())
    }

    /// Makes a call that may sleep, with the baton given up; neither the call nor the steps before
    /// it in this turn may have changed anything.
    ///
    /// # Errors
    /// As [`Turns::asleep`](crate::mode::Turns::asleep).
    pub fn wait(
        &mut self,
        serial: &Serial,
        task: &mut Task,
        nr: i64,
        args: &[u64; 6],
    ) -> Result<i64> {
        let mut enter = || enter_kernel(nr as u32, args, true);
        let (result, taken) = serial.asleep_unlogged(task, &mut enter)?;
        self.taken = self.taken.and_then(taken);
        Ok(result)
    }

    /// Orders the caller behind the actions of the other processes so far. Those that live become
    /// members, and the caller before them: two that ask each other both have an answer. Says
    /// whether any of them was not met before.
    pub fn meet(&mut self, serial: &Serial, task: &mut Task, others: &[u32]) -> Result<bool> {
        let new = others.iter().copied().filter(|p| !self.met.contains(p));
        let new: Vec<u32> = new.collect();
        self.met.extend(&new);
        let slot = |p: &u32| Some((*p, PROCESSES.of(&serial.shm).get(*p)?));
        let slots: Vec<(u32, &ProcessSlot)> = new.iter().filter_map(slot).collect();
        if slots.iter().any(|(_, slot)| slot.may_share()) {
            self.join(serial, task)?;
        }
        let member = serial.baton.is_member();
        for (other, slot) in slots {
            // The group's order is that of all its members.
            if let Some(turn) = (!(member && slot.is_member()))
                .then(|| slot.ask())
                .flatten()
            {
                // What the caller writes from now on is memory of the other one too, before that has its first turn.
                slot.joins(CHECKPOINTS.of(&serial.shm).changes_of_group() + 1);
                self.after.push((other, turn));
            }
        }
        Ok(!new.is_empty())
    }

    /// Logs it, if there is anything to log.
    ///
    /// # Errors
    /// No supervisor stores it.
    pub fn settle(self, serial: &Serial, task: &mut Task) -> Result<()> {
        if !task.log.switched && (self.taken.switched || !self.after.is_empty()) {
            // Without a wait the turn goes on as one more, which follows others.
            let own = || Some(serial.baton.present());
            let before = match self.taken.switched {
                true => self.taken.before,
                false => own(),
            };
            serial.turn(task, before)?;
            task.log.switched = true;
        }
        for (other, turn) in self.after {
            serial.after(other, turn)?;
        }
        Ok(())
    }
}

impl Serial {
    /// Makes the calling process a member of the group, inside a system call: the turn that it
    /// waits for is part of the call.
    ///
    /// # Errors
    /// Too many processes.
    fn join(&self, task: &mut Task) -> Result<()> {
        let mut owed = Owed::new(self);
        owed.join(self, task)?;
        owed.settle(self, task)
    }

    /// A process is about to map a file shared. Processes that will see each
    /// other's writes become members of the group first; afterwards the caller holds the baton
    /// of all of them, so that the content it finds is the one of this moment.
    ///
    /// # Errors
    /// Too many processes, or too many files.
    pub(super) fn claim(&self, task: &mut Task, call: &Call, used: &FileUse<'_>) -> Result<()> {
        let file = used.part.file;
        self.baton.meet()?;
        self.new_slice(task);
        // If it comes to nothing, the claim goes with the call.
        task.machine().memory().space.may_drop(file);
        let mut owed = Owed::new(self);
        loop {
            let process = self.baton.process();
            let Some(others) =
                USERS
                    .of(&self.shm)
                    .claim(PROCESSES.of(&self.shm), file, process, used.writes)
            else {
                return Err(unsupported(
                    call,
                    &format!("{} is one shared file too many", used.name),
                ));
            };
            // A process that forks while it is asked has a child that maps the file too.
            if !owed.meet(self, task, &others)? {
                break;
            }
        }
        CHANGES.of(&self.shm).await_others(file);
        owed.settle(self, task)
    }

    /// Ends the claims to files that the process maps no more.
    pub(super) fn release(&self, task: &Task) {
        let mut memory = task.machine().memory();
        let dropped = memory.space.take_dropped();
        for file in dropped {
            if !memory.space.shares_file(file) {
                USERS.of(&self.shm).release(file, self.baton.process());
            }
        }
    }

    /// A process that has gone over in the call at hand has its first turn, and nothing else happens.
    ///
    /// # Errors
    /// No supervisor stores it.
    pub fn begins_turns(&self, task: &mut Task) -> Result<()> {
        Owed::new(self).settle(self, task)
    }

    /// Before a fork: a parent with memory that its child will share becomes a member of the group.
    /// Says whether the child begins as one.
    pub(super) fn share_with_child(&self, task: &mut Task, child: u32) -> Result<bool> {
        let (common, files) = {
            let memory = task.machine().memory();
            let shared = memory.space.iter().filter(|r| r.shared);
            let files: Vec<(u64, bool)> = shared.map(|r| (r.inode, r.common)).collect();
            (files.iter().any(|f| f.1), files)
        };
        if common {
            self.join(task)?;
        }
        let member = self.baton.expect_child(child, !files.is_empty())?;
        for (file, writes) in files.into_iter().filter(|f| f.0 != 0) {
            self.note_user(file, child, writes)?;
        }
        Ok(member)
    }

    /// Claims a file for a forked child, which inherits its parent's map of it.
    fn note_user(&self, file: u64, child: u32, writes: bool) -> Result<()> {
        let processes = PROCESSES.of(&self.shm);
        let claimed = USERS.of(&self.shm).claim(processes, file, child, writes);
        claimed.map(drop).ok_or_else(no_room)
    }
}
