//! What a thread of a parallel replay does on its way, as stops of its run: it waits for the operations that its own
//! follow, and for moments, tells how far it has come, and makes the threads that its calls have made. Must never
//! change what happens, but when.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use relive_dbt::Stop;
use relive_trace::{Ending, Kind};

use super::followed::{
    all_notes, await_noted, await_noted_of_event, check_followed, notes, pop_note, publish,
};
use super::newborn::{self, HostMain};
use super::sibling_waits::{Want, has, wait};
use super::siblings::{NO_MOMENT, SIBLINGS, Sibling};
use crate::course::{Following, Note};
use crate::failure::{Failure, Result};
use crate::flow::Flow;
use crate::modes::replay::events::DueEvent;
use crate::modes::replay::report::divergence;
use crate::modes::replay::stepper::process::Stepper;
use crate::modes::replay::stepper::stops::{Pace, Stops};
use crate::tape::{CourseNotes, Tape};
use crate::task::Task;

/// Ticks before a moment that a thread runs late.
const LATE: u64 = 1 << 10;
/// As many operations as no thread makes.
const MANY: i64 = i64::MIN / 2;

/// The thread has come to the end of its tape, and no other one waits for it.
pub struct AtRest;

/// How a thread has left its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It has not.
    No,
    /// Inside a call that did not return.
    Stays,
    /// It has ended with this code.
    Over(i32),
    /// Its process has ended.
    Ends,
}

/// The stops of one thread.
pub struct Beside {
    /// The thread.
    pub me: Arc<Sibling>,
    /// Its operation up to which it has waited.
    waited: u64,
    /// The same, for loads before the operation.
    early: u64,
    /// The moment in front of which it has waited.
    late: u64,
    /// How it has left its run.
    pub left: Left,
    /// Runs the threads that it makes.
    main: HostMain,
}

impl Beside {
    /// Of a thread that begins.
    pub fn new(me: Arc<Sibling>, main: HostMain) -> Self {
        Self {
            me,
            main,
            waited: 0,
            early: 0,
            late: 0,
            left: Left::No,
        }
    }

    /// Compares the ticks of the operations that the tape names with those that the thread has made and is yet to make.
    fn check_operations(task: &Task) -> Result<()> {
        let (ticks, ops) = (task.ctx.ticks(), task.ctx.ops);
        for (tick, Following { at, .. }) in
            notes(task).into_iter().flat_map(CourseNotes::operations)
        {
            if at <= ops && tick > ticks || at > ops && tick < ticks {
                let recorded = format!("operation {at} behind tick {tick}");
                let actual = format!("{ops} operations at tick {ticks}");
                return Err(divergence(task, &recorded, &actual));
            }
            if at > ops {
                break;
            }
        }
        Ok(())
    }

    /// Passes the notes that lie behind the thread.
    pub(super) fn pass_notes(&self, task: &mut Task) -> Result<()> {
        while let Some(&note) = notes(task).and_then(CourseNotes::front) {
            match note {
                Note::Moment {
                    event: false,
                    ticks,
                    begin,
                    end,
                } if ticks <= task.ctx.ticks() => {
                    self.me.upcoming.store(end, Ordering::Release);
                    wait(task, Want::Moment(begin))?;
                }
                Note::Edge {
                    event: false,
                    at,
                    thread,
                    op,
                    ..
                } if at <= task.ctx.ops => {
                    if at > self.waited || !has(task.slot, Want::Operation(thread, op)) {
                        let recorded =
                            format!("operation {at} follows operation {op} of thread {thread}");
                        let actual = "it has been made before that one";
                        return Err(divergence(task, &recorded, actual));
                    }
                }
                _ => break,
            }
            pop_note(task);
        }
        let upcoming = notes(task).and_then(CourseNotes::next_moment);
        let upcoming = upcoming.map_or(NO_MOMENT, |(.., end)| end);
        self.me.upcoming.store(upcoming, Ordering::Release);
        Ok(())
    }

    /// The thread's next operation that is an instruction and follows one that has not been made: its number, the
    /// tick in front of it, and that one.
    fn next_edge(&mut self, task: &Task) -> Option<(u64, u64, Want)> {
        let behind = task.ctx.ops.max(self.waited);
        let mut waited = self.waited;
        let mut ahead = notes(task)
            .into_iter()
            .flat_map(|notes| notes.operations_behind(behind));
        let found = ahead.find_map(|(ticks, Following { at, thread, op })| {
            if has(task.slot, Want::Operation(thread, op)) {
                waited = at;
                return None;
            }
            Some((at, ticks, Want::Early(thread, op)))
        });
        // Of several edges of one operation the last may be the one that it has to wait for.
        self.waited = match found {
            Some((at, ..)) => waited.min(at - 1),
            None => waited,
        };
        found
    }

    /// How far the thread goes before its next operation that follows another one. It waits at the last tick in front
    /// of it, behind its operation before: plain loads that belong to it mostly saw the other one.
    fn toward_edge(&mut self, task: &mut Task) -> Result<Option<Pace<AtRest>>> {
        loop {
            let Some((at, tick, before)) = self.next_edge(task) else {
                task.ctx.to_edge = MANY;
                return Ok(None);
            };
            let (ticks, ops) = (task.ctx.ticks(), task.ctx.ops);
            task.ctx.to_edge = -i64::try_from(at - 1 - ops).unwrap_or(-MANY);
            if at <= self.early {
                return Ok(None);
            }
            if ticks < tick {
                return Ok(Some(Pace::Within(tick - ticks)));
            }
            if ops + 1 < at {
                return Ok(Some(Pace::Step));
            }
            wait(task, before)?;
            self.early = at;
        }
    }

    /// How far the thread goes before its next moment. It runs the last ticks late, when events are over that were so
    /// in the recording: plain loads there see what they saw.
    fn toward_moment(&mut self, task: &mut Task) -> Result<Option<u64>> {
        let ticks = task.ctx.ticks();
        let Some((tick, begin, _)) = notes(task).and_then(CourseNotes::next_moment) else {
            return Ok(None);
        };
        if begin != self.late {
            if tick > ticks + LATE {
                return Ok(Some(tick - LATE - ticks));
            }
            wait(task, Want::Late(begin))?;
            self.late = begin;
        }
        // Behind its tick lies only the event whose moment it is.
        Ok(tick.checked_sub(ticks).filter(|&left| left != 0))
    }

    /// How far a thread goes that has no event left.
    fn at_end(&self, task: &Task) -> Pace<AtRest> {
        let ticks = task.ctx.ticks();
        let mut at_call = false;
        for note in all_notes(task) {
            match note {
                Note::Moment { event: true, .. } => at_call = true,
                Note::Moment { ticks: tick, .. } if tick > ticks => {
                    return Pace::Within(tick - ticks);
                }
                Note::Edge {
                    event: false,
                    at,
                    ticks: tick,
                    ..
                } if at > task.ctx.ops => {
                    return match tick > ticks {
                        true => Pace::Within(tick - ticks),
                        false => Pace::Step,
                    };
                }
                Note::Mark {
                    event: false,
                    ticks: tick,
                    ..
                }
                | Note::Behind {
                    event: false,
                    ticks: tick,
                    ..
                } => {
                    return match tick > ticks {
                        true => Pace::Within(tick - ticks),
                        false => Pace::Step,
                    };
                }
                _ => {}
            }
        }
        match at_call {
            true => Pace::Free,
            false if self.me.is_wanted() => Pace::Step,
            false => Pace::Stop(AtRest),
        }
    }
}

impl Stops for Beside {
    type Why = AtRest;

    fn before_code(&mut self, at: &mut Stepper, _: bool) -> Result<Pace<AtRest>> {
        let task = &mut at.task;
        publish(task, task.ctx.ops);
        check_followed(task)?;
        let ends = task.tape.at_end()?;
        Self::check_operations(task)?;
        self.pass_notes(task)?;
        let before_mark = self.toward_mark(task)?;
        let before_edge = self.toward_edge(task)?;
        if ends {
            return Ok(self.at_end(task));
        }
        let before_moment = self.toward_moment(task)?.map(Pace::Within);
        let nearest = |a: Pace<_>, b: Pace<_>| match (a, b) {
            (Pace::Within(a), Pace::Within(b)) => Pace::Within(a.min(b)),
            (Pace::Within(_), other) | (other, _) => other,
        };
        let paces = [before_mark, before_edge, before_moment];
        let pace = paces.into_iter().flatten().reduce(nearest);
        Ok(pace.unwrap_or(Pace::Free))
    }

    /// The thread stands in front of an operation that follows others.
    fn takes(&mut self, at: &mut Stepper, stop: &Stop, _: u64) -> Result<bool> {
        let Stop::Ordered { .. } = stop else {
            return Ok(false);
        };
        let task = &mut at.task;
        publish(task, task.ctx.ops);
        Self::check_operations(task)?;
        let next = task.ctx.ops + 1;
        await_noted(task, next)?;
        self.waited = next;
        Ok(true)
    }

    fn before_event(&mut self, at: &mut Stepper, due: &DueEvent) -> Result<Option<AtRest>> {
        let task = &mut at.task;
        publish(task, task.ctx.ops);
        check_followed(task)?;
        let (mut kind, mut output) = (Next::Other, None);
        match task.tape.peek()?.map(|event| event.kind) {
            Some(Kind::End {
                how: Ending::ProcessExit | Ending::Killed,
                ..
            }) => kind = Next::Ends,
            Some(Kind::Exec(_)) => kind = Next::Executes,
            Some(Kind::Syscall(call)) if call.stream != 0 => output = call.order,
            _ => {}
        }
        for note in all_notes(task).collect::<Vec<_>>() {
            match note {
                Note::Moment { begin, end, .. } => {
                    self.me.upcoming.store(end, Ordering::Release);
                    wait(task, Want::Moment(begin))?;
                }
                Note::Edge {
                    event: true,
                    at,
                    thread,
                    op,
                    ..
                } if at <= task.ctx.ops => {
                    let recorded = format!(
                        "its next event has operation {at}, behind operation {op} of thread {thread}"
                    );
                    let actual = format!("it has made {} before", task.ctx.ops);
                    return Err(divergence(task, &recorded, &actual));
                }
                note => self.pass_mark(task, note)?,
            }
        }
        // An event may be due more than once.
        if let Tape::In(tape) = &mut task.tape {
            let is_mark = |note: &Note| matches!(note, Note::Mark { .. } | Note::Behind { .. });
            tape.notes.edit(|notes| notes.retain(|note| !is_mark(note)));
        }
        if let DueEvent::Position(_) = due {
            await_noted_of_event(task, task.ctx.ops + 1)?;
        }
        match kind {
            Next::Ends => wait(task, Want::Ends)?,
            Next::Executes if has_others(task) => {
                return Err(Failure::unsupported(format!(
                    "thread {} executes a program while there are others, and a replay with --parallel cannot: replay it without",
                    task.id()
                )));
            }
            _ => {}
        }
        if let Some(order) = output {
            wait(task, Want::Output(order))?;
        }
        Ok(None)
    }

    fn happened(&mut self, at: &mut Stepper, flow: &Flow) -> Result<()> {
        self.left = match flow {
            Flow::Continue => Left::No,
            Flow::Exec(_) => {
                (self.waited, self.early) = (0, 0);
                Left::No
            }
            Flow::Park => Left::Stays,
            Flow::ThreadEnd(code) => Left::Over(*code),
            Flow::ProcessEnd(_) => Left::Ends,
        };
        if let Some(child) = self.me.take_newborn() {
            newborn::start(at.task.machine(), child, self.main)?;
        }
        Ok(())
    }
}

/// The next event, as far as others matter for it.
enum Next {
    Ends,
    Executes,
    Other,
}

fn has_others(task: &Task) -> bool {
    !SIBLINGS.all_alive(|s| s.thread == task.slot)
}
