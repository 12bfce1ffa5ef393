//! The operations of other threads that those of a task follow, by its tape, and the waits for them. Must never take
//! an operation for made that its thread has not published.

use std::sync::atomic::Ordering;

use super::sibling_waits::{Want, has, wait};
use super::siblings::SIBLINGS;
use crate::course::{Following, Note};
use crate::failure::Result;
use crate::modes::replay::report::divergence;
use crate::tape::{CourseNotes, Tape};
use crate::task::Task;

/// The notes before the next event of the task.
pub fn notes(task: &Task) -> Option<&CourseNotes> {
    match &task.tape {
        Tape::In(tape) => Some(&tape.notes),
        _ => None,
    }
}

/// All of them.
pub fn all_notes(task: &Task) -> impl Iterator<Item = Note> {
    notes(task)
        .into_iter()
        .flat_map(|notes| notes.iter().copied())
}

/// The first note lies behind the task.
pub fn pop_note(task: &mut Task) {
    if let Tape::In(tape) = &mut task.tape {
        tape.notes.pop_front();
    }
}

/// The task has made so many operations, and their effects are there.
pub fn publish(task: &Task, ops: u64) {
    task.ctx.done.store(ops, Ordering::Release);
}

/// Waits for the operations that the task's operation `at`, of an instruction, follows, by the notes before its next event.
///
/// # Errors
/// As [`wait`].
pub fn await_noted(task: &mut Task, at: u64) -> Result<()> {
    let before: Vec<Want> = notes(task).map_or_else(Vec::new, |notes| {
        let operations = notes.operations_behind(at - 1);
        let its_own = operations.take_while(|(_, following)| following.at == at);
        its_own
            .map(|(_, following)| Want::Operation(following.thread, following.op))
            .collect()
    });
    before.into_iter().try_for_each(|want| wait(task, want))
}

/// The same for its operation `at`, a part of that event.
///
/// # Errors
/// As [`wait`].
pub fn await_noted_of_event(task: &mut Task, at: u64) -> Result<()> {
    let before: Vec<Want> = all_notes(task)
        .filter_map(|note| match note {
            Note::Edge {
                event: true,
                at: a,
                thread,
                op,
                ..
            } if a == at => Some(Want::Operation(thread, op)),
            _ => None,
        })
        .collect();
    before.into_iter().try_for_each(|want| wait(task, want))
}

/// Waits for the operations that the task's present one, a part of the call at hand, follows.
///
/// # Errors
/// As [`wait`].
pub fn await_followed(task: &mut Task) -> Result<()> {
    let ops = task.ctx.ops;
    let Tape::In(tape) = &mut task.tape else {
        return Ok(());
    };
    let here = |following: &Following| following.at == ops;
    let before: Vec<Following> = tape.follows.iter().copied().filter(here).collect();
    tape.follows.retain(|following| following.at > ops);
    for Following { thread, op, .. } in before {
        let want = Want::Operation(thread, op);
        if has(task.slot, want) {
            continue;
        }
        // What this call has done before may be what the other thread waits for.
        let holds = SIBLINGS.get(task.slot);
        if holds.is_some_and(|me| !me.holds.load(Ordering::Relaxed)) {
            publish(task, ops - 1);
        }
        wait(task, want)?;
    }
    Ok(())
}

/// The last event has made all operations that its tape tells of.
///
/// # Errors
/// A divergence: it has not.
pub fn check_followed(task: &mut Task) -> Result<()> {
    let ops = task.ctx.ops;
    let Tape::In(tape) = &mut task.tape else {
        return Ok(());
    };
    let left = tape.follows.iter().find(|following| following.at > ops);
    let Some(&Following { at, thread, op }) = left else {
        tape.follows.clear();
        return Ok(());
    };
    let recorded =
        format!("operation {at} in its last event, behind operation {op} of thread {thread}");
    Err(divergence(task, &recorded, &format!("{ops} operations")))
}
