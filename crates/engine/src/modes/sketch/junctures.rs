//! The junctures of a process whose threads run together: calls by which all that the others do by plain accesses is cut in two. What they have
//! stored is in a forked child's memory up to where they stood then, and no further; where access to memory is taken away, they fault from there
//! on. The tapes say where that is. Must never let a replay make such a call while another thread stands elsewhere.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use super::marks::{make_mark, make_mark_at, note_behind};
use crate::failure::Result;
use crate::lines::Mark;
use crate::registry::RestPlace;
use crate::tape::Tape;
use crate::task::Task;

/// The junctures of a process while its threads ran together, for those that stood still meanwhile.
#[derive(Default)]
pub struct Junctures(Mutex<JunctureMarks>);

#[derive(Default)]
struct JunctureMarks {
    /// How many there were.
    count: u64,
    /// The last one of each thread: its number, and the mark that the thread makes behind it.
    last: BTreeMap<u32, (u64, Mark)>,
}

impl Junctures {
    fn marks(&self) -> MutexGuard<'_, JunctureMarks> {
        self.0.lock().expect("no thread panics: panics abort")
    }

    /// The task is about to stand still, in the call at hand (`event`) or in front of its next instruction.
    pub fn stands_still(&self, task: &mut Task, event: bool) -> Result<()> {
        let count = self.marks().count;
        match &mut task.tape {
            // The mark that comes next is the one behind the juncture.
            Tape::Out(tape) if tape.at_juncture => return Ok(()),
            Tape::Out(tape) => (tape.junctures, tape.stands) = (count, true),
            _ => {}
        }
        make_mark(task, event).map(drop)
    }

    /// It goes on: behind the junctures that were made meanwhile.
    pub fn stood_still(&self, task: &mut Task, event: bool) -> Result<()> {
        match &mut task.tape {
            // Its own one comes before them: it says so when that is logged.
            Tape::Out(tape) if tape.at_juncture => Ok(()),
            Tape::Out(tape) => {
                tape.stands = false;
                self.comes_behind_new(task, event)
            }
            _ => Ok(()),
        }
    }

    /// What the task does next comes behind all junctures that it does not know of.
    fn comes_behind_new(&self, task: &mut Task, event: bool) -> Result<()> {
        let Tape::Out(tape) = &mut task.tape else {
            return Ok(());
        };
        let new: Vec<(u32, Mark)> = {
            let marks = self.marks();
            let known = std::mem::replace(&mut tape.junctures, marks.count);
            let new = marks.last.iter().filter(|(_, (number, _))| *number > known);
            new.map(|(thread, (_, mark))| (*thread, *mark)).collect()
        };
        note_behind(task, &new, event)
    }

    /// The task has logged a call: if that was a juncture, those that stood still meanwhile are behind what comes next.
    pub fn mark_behind(&self, task: &mut Task) -> Result<()> {
        /// Bytes of a system call's instruction.
        const SYSCALL: u64 = 2;
        let was_juncture = match &mut task.tape {
            Tape::Out(tape) => std::mem::take(&mut tape.at_juncture),
            _ => false,
        };
        if !was_juncture {
            return Ok(());
        }
        make_mark_at(task, false, task.ctx.rip + SYSCALL)?;
        self.comes_behind_new(task, false)
    }

    /// The task is about to make such a call, all others at rest.
    pub fn comes(&self, task: &mut Task) -> Result<()> {
        let Some(me) = task.member.clone() else {
            return Ok(());
        };
        // The one that comes next is made behind the call.
        let mark = task.ctx.marks + 1;
        let mut behind: Vec<(u32, Mark)> = Vec::new();
        for (at, place) in task.machine().registry.described_at_rest(&me) {
            // SAFETY: the registry has the addresses of tasks, whose threads do nothing while there is quiet.
            let other = unsafe { &mut *std::ptr::with_exposed_provenance_mut::<Task>(at) };
            let Tape::Out(tape) = &mut other.tape else {
                continue;
            };
            let sleeps = matches!(place, RestPlace::Call | RestPlace::MemoryOfCall);
            if tape.at_juncture {
                // By its own mark behind that.
                behind.push((other.slot, other.ctx.marks + 1));
            } else if tape.stands {
                behind.push((other.slot, other.ctx.marks));
            } else if sleeps {
                // It has made no mark, and is answered for.
                make_mark(other, true)?;
                note_behind(other, &[(task.slot, mark)], true)?;
                behind.push((other.slot, other.ctx.marks));
            }
        }
        note_behind(task, &behind, true)?;
        let mut marks = self.marks();
        marks.count += 1;
        let last = (marks.count, mark);
        marks.last.insert(task.slot, last);
        if let Tape::Out(tape) = &mut task.tape {
            (tape.junctures, tape.at_juncture) = (marks.count, true);
        }
        Ok(())
    }

    /// In the child, which is alone.
    pub fn forget(&self) {
        *self.marks() = JunctureMarks::default();
    }
}
