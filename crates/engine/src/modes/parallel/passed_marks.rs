//! The marks of a thread of a parallel replay: where it gives memory up in front of an instruction, and where it has it behind
//! another thread that has given it up. Must never let a thread beyond a mark that it has not passed.

use std::sync::atomic::Ordering;

use super::beside::{AtRest, Beside};
use super::followed::{notes, pop_note};
use super::sibling_waits::{Want, wait};
use crate::course::Note;
use crate::failure::Result;
use crate::modes::replay::report::divergence;
use crate::modes::replay::stepper::stops::Pace;
use crate::signals::deliver;
use crate::tape::CourseNotes;
use crate::task::Task;

impl Beside {
    /// How far the thread goes before its next mark of an instruction, or what comes behind one of another thread's.
    pub(super) fn toward_mark(&mut self, task: &mut Task) -> Result<Option<Pace<AtRest>>> {
        while let Some((note, is_first)) = notes(task).and_then(CourseNotes::next_mark) {
            let (ticks, tick) = (task.ctx.ticks(), note.ticks().unwrap_or(0));
            if ticks < tick {
                return Ok(Some(Pace::Within(tick - ticks)));
            }
            if ticks > tick {
                let recorded = format!("a mark, or what comes behind one, at tick {tick}");
                return Err(divergence(
                    task,
                    &recorded,
                    &format!("it is at tick {ticks}"),
                ));
            }
            if !is_first {
                return Ok(Some(Pace::Step));
            }
            if let Note::Mark { pc, .. } = note
                && task.ctx.rip != pc
                && deliver::goes_on_at(task) != pc
            {
                return Ok(Some(Pace::Step));
            }
            self.pass_mark(task, note)?;
            pop_note(task);
            self.pass_notes(task)?;
        }
        Ok(None)
    }

    /// The thread passes a mark, or gets behind one of another thread.
    pub(super) fn pass_mark(&self, task: &mut Task, note: Note) -> Result<()> {
        match note {
            Note::Mark { .. } => {
                self.me.marks.fetch_add(1, Ordering::AcqRel);
                Ok(())
            }
            Note::Behind { thread, mark, .. } => wait(task, Want::Mark(thread, mark)),
            _ => Ok(()),
        }
    }
}
