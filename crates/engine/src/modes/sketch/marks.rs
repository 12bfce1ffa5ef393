//! Marks of a thread on its tape: places of it that another thread's tape can say to come behind. Must never be made where the thread does
//! not stand.

use relive_trace::Kind;

use crate::failure::Result;
use crate::lines::Mark;
use crate::tape::Tape;
use crate::task::Task;

/// Makes a mark where the task stands: in front of its next event, or of its next instruction.
pub fn make_mark(task: &mut Task, event: bool) -> Result<Mark> {
    let pc = if event { 0 } else { task.ctx.rip };
    make_mark_at(task, event, pc)
}

/// The same of an instruction that comes next when the event at hand is over.
pub fn make_mark_at(task: &mut Task, event: bool, pc: u64) -> Result<Mark> {
    task.ctx.marks += 1;
    note(task, task.ctx.ticks(), Kind::Mark { event, pc })?;
    Ok(task.ctx.marks)
}

pub fn note_behind(task: &mut Task, behind: &[(u32, Mark)], event: bool) -> Result<()> {
    let ticks = task.ctx.ticks();
    for &(thread, mark) in behind {
        let kind = Kind::Behind {
            event,
            thread,
            mark,
        };
        note(task, ticks, kind)?;
    }
    Ok(())
}

fn note(task: &mut Task, ticks: u64, kind: Kind<'_>) -> Result<()> {
    match &mut task.tape {
        Tape::Out(tape) => Ok(tape.note(ticks, kind)?),
        _ => Ok(()),
    }
}
