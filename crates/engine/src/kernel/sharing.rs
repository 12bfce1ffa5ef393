//! Recording: the moments at which a process begins to share memory with others.

use super::{Call, unsupported};
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
    if let Some(taken) = machine().baton.join(task)? {
        schedule::turn(task, taken.before);
        task.log.switched = true;
        // The slice of one that nobody waited for is long.
        live::new_slice(task);
    }
    Ok(())
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
    let (users, processes) = (&shm.header().shared, &shm.header().processes);
    let Some(others) = users.claim(processes, file, baton.process(), writes) else {
        return Err(unsupported(
            call,
            &format!("{name} is one shared file too many"),
        ));
    };
    let others: Vec<(u32, &Slot)> = others
        .into_iter()
        .filter_map(|p| Some((p, processes.get(p)?)))
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    // First this one: two that ask each other both have an answer.
    if others.iter().any(|(_, slot)| slot.may_share()) {
        join(task)?;
    }
    if !task.log.switched {
        // The turn goes on as one more, which follows others.
        schedule::turn(task, Some(baton.present()));
        task.log.switched = true;
    }
    for (other, slot) in others {
        if let Some(turn) = slot.ask() {
            schedule::after(other, turn);
        }
    }
    Ok(())
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
