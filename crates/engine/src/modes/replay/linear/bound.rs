//! How far a thread may run before another one may have to, by the notes on its tape.

use std::collections::{BTreeMap, VecDeque};

use super::end_place::{EndPlace, WayToPlace};
use super::hints::What;
use super::reach::{Bound, part};
use super::ways::{decided, far_moment, late_from, pace};
use crate::course::Note;
use crate::failure::{Failure, Result};
use crate::modes::replay::races::tracking;
use crate::signals::deliver;
use crate::tape::Tape;
use crate::task::Task;

/// How far the other threads are.
pub trait OtherThreads {
    /// Whether a thread has made its operation `op`.
    fn has_made(&self, thread: u32, op: u64) -> bool;

    /// Whether a thread has passed its mark; 0: whether it has ended.
    fn has_passed(&self, thread: u32, mark: u64) -> bool;
}

/// What decides how far a thread may run, beside its tape.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// How far the others are.
    pub others: &'a dyn OtherThreads,
    /// The decisions of a search for the thread.
    pub hint: &'a dyn Fn(What) -> Option<u64>,
    /// Where threads stand at the end of the epoch, if the replay is of one that ends before the recording.
    pub ends: &'a BTreeMap<u32, EndPlace>,
    /// It stands in front of its next event.
    pub is_at_event: bool,
    /// The recording was cut off: of what a thread has done behind the last event on its tape that may say a part only.
    pub is_cut: bool,
    /// The recording says all of the order of accesses to memory: calls that concern the thread alone have no moment.
    pub says_all: bool,
    /// Turns are long: the way between two moments is one, and not gone in parts, up to so many ticks before what comes next.
    pub long: Option<u64>,
}

/// How far a thread may run.
///
/// # Errors
/// A damaged trace.
pub fn bound(task: &mut Task, around: Surroundings<'_>) -> Result<Bound> {
    let Surroundings { others, hint, .. } = around;
    let (ticks, ops) = (task.ctx.ticks(), task.ctx.ops);
    let is_made = |thread, op| others.has_made(thread, op);
    // A call that a signal has interrupted is yet to be made again.
    let goes_on_at = deliver::goes_on_at(task);
    let Tape::In(tape) = &mut task.tape else {
        return Ok(Bound::End);
    };
    // Loads the notes in front of it.
    let next = tape.upcoming()?;
    // Behind its last event before that.
    let place = around.ends.get(&task.index);
    let place = place.filter(|place| tape.position() >= place.entries);
    if around.is_cut && next.is_none() && place.is_none() {
        return Ok(Bound::End);
    }
    let thread = (task.process.index, task.index);
    let marks = &mut task.ctx.marks;
    pass_marks_of_event(thread, marks, &mut tape.late, others);
    while let Some(&note) = tape.notes.front() {
        if place.is_some_and(|place| place.is_before(&note, *marks, around.ends)) {
            break;
        }
        match note {
            Note::Edge {
                event: false,
                ticks: tick,
                at,
                thread,
                op,
            } => {
                let made = is_made(thread, op);
                if at <= ops && !made {
                    return Err(Failure::divergence(format!(
                        "thread {} has made its operation {at}, which follows operation {op} of thread {thread}, before that one",
                        task.slot
                    )));
                }
                if !made {
                    let late = around.long.and_then(|near| late_from(tape, next, near));
                    let late = late.filter(|&from| from > tape.behind.0);
                    let since = match decided(tape, hint).or(late) {
                        Some(step) if ticks >= step => {
                            tape.notes.next_moment().map(|(_, begin, _)| begin)
                        }
                        _ => None,
                    };
                    let since = since.unwrap_or(tape.behind.1);
                    return Ok(match late.filter(|&from| ticks < from) {
                        Some(from) => Bound::Tick {
                            ticks: from,
                            at: since,
                        },
                        None => Bound::Operation {
                            ticks: tick,
                            at,
                            after: thread,
                            since,
                        },
                    });
                }
            }
            Note::Moment {
                event: false,
                ticks: tick,
                end,
                ..
            } => {
                let step = decided(tape, hint);
                if ticks < tick {
                    let moment = hint(What::Moment(tape.moments));
                    let late = around.long.and_then(|near| late_from(tape, next, near));
                    let (step, is_far) = pace(late, (tape.behind.0, ticks, tick), step);
                    if around.long.is_some() && moment.is_none() && is_far {
                        let at = tape.behind.1;
                        let is_behind = |note: &Note| {
                            place.is_some_and(|place| place.is_before(note, *marks, around.ends))
                        };
                        let before = tape.notes.iter().take_while(|note| !is_behind(note));
                        let far = far_moment(before, at, tape.moments, hint).unwrap_or(tick);
                        let ticks = far.min(step.unwrap_or(far));
                        return Ok(Bound::Tick { ticks, at });
                    }
                    return Ok(part(tape.behind, ticks, (tick, end), step, moment));
                }
                match step {
                    Some(step) if step > tick => tape.behind.0 = tick,
                    _ => tape.behind = (tick, end),
                }
                tape.early = step;
                tape.moments += 1;
            }
            Note::Mark {
                event: false,
                ticks: tick,
                pc,
            } => {
                let at = tape.behind.1;
                if ticks < tick {
                    return Ok(Bound::Tick { ticks: tick, at });
                }
                if ticks > tick {
                    return Err(Failure::divergence(format!(
                        "thread {} has passed tick {tick}, where it gave lines of memory up in front of {pc:#x}",
                        task.slot
                    )));
                }
                if task.ctx.rip != pc && goes_on_at != pc {
                    return Ok(Bound::Step { ticks: tick, at });
                }
                pass_mark(thread, marks);
            }
            Note::Behind {
                event: false,
                ticks: tick,
                thread,
                mark,
            } if !others.has_passed(thread, mark) => {
                if ticks > tick {
                    return Err(Failure::divergence(format!(
                        "thread {} has passed tick {tick}, behind which it comes after thread {thread}, before that one",
                        task.slot
                    )));
                }
                return Ok(Bound::Operation {
                    ticks: tick,
                    at: ops + 1,
                    after: thread,
                    since: tape.behind.1,
                });
            }
            Note::Behind {
                event: false,
                thread: other,
                mark,
                ..
            } => tracking::comes_behind(thread, other, mark),
            _ => break,
        }
        tape.notes.pop_front();
    }
    if let Some(end) = place {
        let way = WayToPlace {
            ticks,
            at: [task.ctx.rip, goes_on_at],
            behind: tape.behind,
            decided: (decided(tape, hint), hint(What::Moment(tape.moments))),
            is_one: around.long.is_some(),
        };
        let bound = end.bound(task.slot, &way)?;
        // There it had given up all that others asked for, by itself or in the call that it was in.
        while bound == Bound::Place && *marks < end.marks {
            pass_mark(thread, marks);
        }
        return Ok(bound);
    }
    let passes_by = |note: &Note| {
        matches!(
            note,
            Note::Mark { event: false, .. } | Note::Behind { event: false, .. }
        )
    };
    if tape.notes.iter().any(passes_by) {
        return Err(Failure::divergence(format!(
            "thread {} has lines of memory to give up or to get behind what it has to for its next event",
            task.slot
        )));
    }
    if around.is_at_event {
        tape.notes
            .edit(|notes| pass_marks_of_event(thread, marks, notes, others));
    }
    let mut event = Bound::event_at(0);
    for note in tape.notes.iter() {
        match (*note, &mut event) {
            (Note::Edge { thread, op, .. }, Bound::Event { after, .. }) if !is_made(thread, op) => {
                *after = Some(thread);
            }
            (Note::Behind { thread, mark, .. }, Bound::Event { after, .. })
                if !others.has_passed(thread, mark) =>
            {
                *after = Some(thread);
            }
            (
                Note::Moment {
                    begin: b, end: e, ..
                },
                Bound::Event { begin, end, .. },
            ) => (*begin, *end) = (b, e),
            _ => {}
        }
    }
    let Some(next) = next else {
        return Ok(match event {
            // A call that never ended.
            Bound::Event { begin, .. } if !tape.notes.is_empty() => Bound::event_at(begin),
            _ => Bound::End,
        });
    };
    if next.begins_in_call {
        // It begins within a call of its parent's, which goes on as it.
        return Ok(Bound::event_at(0));
    }
    let (behind, step) = (tape.behind, decided(tape, hint));
    let Bound::Event {
        begin, end, after, ..
    } = event
    else {
        return Ok(event);
    };
    if around.says_all && next.is_private && after.is_none() {
        return Ok(Bound::event_at(0));
    }
    let moment = hint(What::Moment(tape.moments));
    let late = around
        .long
        .and_then(|near| late_from(tape, Some(next), near));
    let (step, is_far) = pace(late, (behind.0, ticks, next.ticks), step);
    if around.long.is_some() && moment.is_none() && is_far {
        match step.filter(|&step| step < next.ticks) {
            Some(ticks) => {
                let at = behind.1;
                return Ok(Bound::Tick { ticks, at });
            }
            None if ticks < next.ticks && !next.waits => {
                let (ticks, at) = (next.ticks, begin);
                return Ok(Bound::Tick { ticks, at });
            }
            None => {}
        }
    } else if begin > 0 && ticks < next.ticks {
        match part(behind, ticks, (next.ticks, begin), step, moment) {
            // It comes to its event by itself.
            Bound::Tick { ticks, .. } if next.waits && ticks == next.ticks => {}
            part => return Ok(part),
        }
    }
    let begin = match (moment, step) {
        (Some(moment), _) => moment,
        (None, Some(step)) if ticks < step || (behind.0 < next.ticks && next.ticks <= step) => {
            behind.1
        }
        _ => begin,
    };
    Ok(Bound::Event {
        begin,
        end,
        after,
        ends: next.ends,
        changed: next.changed,
        made: next.made,
    })
}

/// Passes what a child of vfork(2) has done, and what nothing has asked for: its parent, which goes on in its place, counts its
/// marks too. `ends`: its tape has no more; it may have been killed behind its last event, and in the midst of becoming another
/// program. That this was an operation the parent's call says; before format 1.11 the time alone did, which is noted beside
/// other threads only.
///
/// # Errors
/// A damaged trace.
pub fn leaves_tape(task: &mut Task, ends: bool) -> Result<()> {
    let thread = (task.process.index, task.index);
    let Tape::In(tape) = &mut task.tape else {
        return Ok(());
    };
    let mut notes = std::mem::take(&mut tape.late);
    if ends && tape.upcoming()?.is_none() {
        notes.append(&mut tape.notes.take());
    }
    for note in notes {
        match note {
            Note::Mark { .. } => {
                pass_mark(thread, &mut task.ctx.marks);
            }
            Note::Moment {
                event: true,
                begin,
                end,
                ..
            } if begin < end => task.ctx.ops += 1,
            _ => {}
        }
    }
    Ok(())
}

/// A thread passes its next mark.
fn pass_mark(me: (u32, u32), marks: &mut u64) {
    *marks += 1;
    tracking::passes_mark(me, *marks);
}

/// Passes the marks that a thread made at an event, up to where it came behind what others have not done yet.
fn pass_marks_of_event(
    me: (u32, u32),
    marks: &mut u64,
    notes: &mut VecDeque<Note>,
    others: &dyn OtherThreads,
) {
    let mut at = 0;
    while let Some(&note) = notes.get(at) {
        let is_passed = match note {
            Note::Mark { event: true, .. } => {
                pass_mark(me, marks);
                true
            }
            Note::Behind {
                event: true,
                thread,
                mark,
                ..
            } if others.has_passed(thread, mark) => {
                tracking::comes_behind(me, thread, mark);
                true
            }
            Note::Behind { event: true, .. } => break,
            Note::Edge {
                event: true,
                thread,
                op,
                ..
            } if !others.has_made(thread, op) => break,
            _ => false,
        };
        match is_passed {
            true => drop(notes.remove(at)),
            false => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other threads that have passed one mark and made no operation.
    struct Passed(u64);

    impl OtherThreads for Passed {
        fn has_made(&self, _: u32, _: u64) -> bool {
            false
        }

        fn has_passed(&self, _: u32, mark: u64) -> bool {
            mark <= self.0
        }
    }

    #[test]
    fn marks_of_an_event_are_passed_up_to_what_has_not_been_done() {
        let (event, ticks) = (true, 7);
        let mark = Note::Mark {
            event,
            ticks,
            pc: 0,
        };
        let behind = |mark| Note::Behind {
            event,
            ticks,
            thread: 1,
            mark,
        };
        let edge = Note::Edge {
            event,
            ticks,
            at: 1,
            thread: 1,
            op: 1,
        };
        let pass = |notes: &mut VecDeque<Note>, passed| {
            let mut marks = 0;
            pass_marks_of_event((0, 0), &mut marks, notes, &Passed(passed));
            marks
        };
        let mut notes = VecDeque::from([behind(1), mark, mark, behind(2), mark, edge, mark]);
        assert_eq!(pass(&mut notes, 0), 0);
        assert_eq!(pass(&mut notes, 1), 2);
        assert_eq!(notes, [behind(2), mark, edge, mark]);
        assert_eq!(pass(&mut notes, 2), 1);
        assert_eq!(notes, [edge, mark], "the operation has not been made");
    }
}
