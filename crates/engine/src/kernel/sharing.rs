//! Recording: the moments at which a process begins to share memory with others.

use super::{Call, unsupported};
use crate::baton::Taken;
use crate::failure::{Failure, Result};
use crate::live;
use crate::machine::{Mode, machine};
use crate::schedule;
use crate::sharing::processes::Slot;
use crate::task::Task;

/// Makes the calling process a member of the group, inside a system call: the turn that it
/// waits for is part of the call.
///
/// # Errors
/// Too many processes.
pub fn join(task: &mut Task) -> Result<()> {
    let mut owed = Owed::default();
    owed.join(task)?;
    owed.settle(task);
    Ok(())
}

/// The turn with which a call goes on, before it is logged: a call may have one only, and may
/// wait several times.
#[derive(Default)]
pub struct Owed {
    taken: Taken,
    /// Turns of others that it follows besides.
    after: Vec<(u32, Option<u32>)>,
    /// Processes that were met already.
    met: Vec<u32>,
}

impl Owed {
    /// The process becomes a member, if it is none.
    ///
    /// # Errors
    /// Too many processes.
    pub fn join(&mut self, task: &mut Task) -> Result<()> {
        if let Some(taken) = machine().baton.join(task)? {
            self.taken = self.taken.and_then(taken);
            // The slice of one that nobody waited for is long.
            live::new_slice(task);
        }
        Ok(())
    }

    /// Makes a call that may sleep, with the baton given up; neither it nor what comes before it
    /// in this turn may have changed anything.
    pub fn wait(&mut self, task: &mut Task, nr: i64, args: &[u64; 6]) -> i64 {
        let (result, taken) = super::live::asleep(task, nr as u32, args);
        self.taken = self.taken.and_then(taken);
        result
    }

    /// Comes after what the other processes have done so far. Those that live become members,
    /// and the caller before them: two that ask each other both have an answer. Says whether any
    /// of them was not met before.
    pub fn meet(&mut self, task: &mut Task, others: &[u32]) -> Result<bool> {
        let new = others.iter().copied().filter(|p| !self.met.contains(p));
        let new: Vec<u32> = new.collect();
        self.met.extend(&new);
        let Some(shm) = machine().shm.as_ref() else {
            return Ok(false);
        };
        let slot = |p: &u32| Some((*p, shm.header().processes.get(*p)?));
        let slots: Vec<(u32, &Slot)> = new.iter().filter_map(slot).collect();
        if slots.iter().any(|(_, slot)| slot.may_share()) {
            self.join(task)?;
        }
        let member = machine().baton.is_member();
        for (other, slot) in slots {
            // The group's order is that of all its members.
            if let Some(turn) = (!(member && slot.is_member()))
                .then(|| slot.ask())
                .flatten()
            {
                self.after.push((other, turn));
            }
        }
        Ok(!new.is_empty())
    }

    /// Logs it, if there is anything to log.
    pub fn settle(self, task: &mut Task) {
        if !task.log.switched && (self.taken.switched || !self.after.is_empty()) {
            // Without a wait the turn goes on as one more, which follows others.
            let own = || Some(machine().baton.present());
            let before = match self.taken.switched {
                true => self.taken.before,
                false => own(),
            };
            schedule::turn(task, before);
            task.log.switched = true;
        }
        for (other, turn) in self.after {
            schedule::after(other, turn);
        }
    }
}

/// A process is about to map `file` (an identity) shared. Processes that will see each
/// other's writes become members of the group first; afterwards the caller holds the baton
/// of all of them, so that the content it finds is the one of this moment.
///
/// # Errors
/// Too many processes, or too many files.
pub fn claim(task: &mut Task, call: &Call, file: u64, writes: bool, name: &str) -> Result<()> {
    let (Some(shm), Mode::Record) = (&machine().shm, machine().mode) else {
        return Ok(());
    };
    let baton = &machine().baton;
    baton.meet()?;
    live::new_slice(task);
    // If it comes to nothing, the claim goes with the call.
    machine().memory().space.may_drop(file);
    let header = shm.header();
    let mut owed = Owed::default();
    loop {
        let process = baton.process();
        let Some(others) = header
            .shared
            .claim(&header.processes, file, process, writes)
        else {
            return Err(unsupported(
                call,
                &format!("{name} is one shared file too many"),
            ));
        };
        // One that forks while it is asked has a child that maps the file too.
        if !owed.meet(task, &others)? {
            break;
        }
    }
    header.changes.await_others(file);
    owed.settle(task);
    Ok(())
}

/// Ends the claims to files that the process maps no more, after a call that changes its map.
pub fn release() {
    let mut memory = machine().memory();
    let dropped = memory.space.take_dropped();
    let (Some(shm), Mode::Record) = (&machine().shm, machine().mode) else {
        return;
    };
    for file in dropped {
        if !memory.space.shares_file(file) {
            shm.header().shared.release(file, machine().baton.process());
        }
    }
}

/// A forked child will map what its parent maps.
///
/// # Errors
/// Too many files.
pub fn note_user(file: u64, child: u32, writes: bool) -> Result<()> {
    let Some(shm) = &machine().shm else {
        return Ok(());
    };
    let header = shm.header();
    match header.shared.claim(&header.processes, file, child, writes) {
        Some(_) => Ok(()),
        None => Err(Failure::unsupported(
            "more shared files and processes that map them than Relive has room for",
        )),
    }
}
