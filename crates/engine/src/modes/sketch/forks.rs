//! The forks of a process whose threads run together: what the others have done by plain stores is in the child's memory up to where they
//! stood then, and no further, and the tapes say where that is. Must never let a replay fork while another thread stands elsewhere.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use super::marks::{make_mark, make_mark_at, note_behind};
use crate::failure::Result;
use crate::lines::Mark;
use crate::registry::RestPlace;
use crate::tape::Tape;
use crate::task::Task;

/// The forks of a process while its threads ran together, for those that stood still meanwhile.
#[derive(Default)]
pub struct Forks(Mutex<ForkMarks>);

#[derive(Default)]
struct ForkMarks {
    /// How many there were.
    count: u64,
    /// The last one of each thread: its number, and the mark that the thread makes behind it.
    last: BTreeMap<u32, (u64, Mark)>,
}

impl Forks {
    fn marks(&self) -> MutexGuard<'_, ForkMarks> {
        self.0.lock().expect("no thread panics: panics abort")
    }

    /// The task is about to stand still, in the call at hand (`event`) or in front of its next instruction.
    pub fn stands_still(&self, task: &mut Task, event: bool) -> Result<()> {
        let count = self.marks().count;
        match &mut task.tape {
            // The mark that comes next is the one behind the fork.
            Tape::Out(tape) if tape.forked => return Ok(()),
            Tape::Out(tape) => tape.forks = count,
            _ => {}
        }
        make_mark(task, event).map(drop)
    }

    /// It goes on: behind the forks that were made meanwhile.
    pub fn stood_still(&self, task: &mut Task, event: bool) -> Result<()> {
        let Tape::Out(tape) = &task.tape else {
            return Ok(());
        };
        let new: Vec<(u32, Mark)> = {
            let (known, marks) = (tape.forks, self.marks());
            let new = marks.last.iter().filter(|(_, (number, _))| *number > known);
            new.map(|(thread, (_, mark))| (*thread, *mark)).collect()
        };
        note_behind(task, &new, event)
    }

    /// The task is about to fork, all others at rest.
    pub fn forks(&self, task: &mut Task) -> Result<()> {
        let Some(me) = task.member.clone() else {
            return Ok(());
        };
        let others = task.machine().registry.all_at_rest(&me).unwrap_or_default();
        let stands = |(at, place): (usize, RestPlace)| {
            // SAFETY: the registry has the addresses of tasks, and there is quiet.
            let other = unsafe { &*std::ptr::with_exposed_provenance::<Task>(at) };
            (place != RestPlace::Unknown && other.ctx.marks > 0)
                .then_some((other.slot, other.ctx.marks))
        };
        let behind: Vec<(u32, Mark)> = others.into_iter().filter_map(stands).collect();
        note_behind(task, &behind, true)?;
        let mut marks = self.marks();
        marks.count += 1;
        let last = (marks.count, task.ctx.marks + 1);
        marks.last.insert(task.slot, last);
        if let Tape::Out(tape) = &mut task.tape {
            tape.forked = true;
        }
        Ok(())
    }

    /// In the child, which is alone.
    pub fn forget(&self) {
        *self.marks() = ForkMarks::default();
    }
}

/// The call that a thread has just logged: if it was a fork, those that stood still meanwhile are behind what comes next.
pub fn mark_behind(task: &mut Task) -> Result<()> {
    /// Bytes of a system call's instruction.
    const SYSCALL: u64 = 2;
    let forked = match &mut task.tape {
        Tape::Out(tape) => std::mem::take(&mut tape.forked),
        _ => false,
    };
    match forked {
        true => make_mark_at(task, false, task.ctx.rip + SYSCALL).map(drop),
        false => Ok(()),
    }
}
