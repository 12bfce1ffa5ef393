//! Answers from the tape to a thread that stands at its next event: calls, instructions, readings of
//! clocks, faults. Each answer is given only after its event has been compared with the thread's
//! act.

use relive_host::reading::Entry;
use relive_trace::{Ending, Event, Kind};

use super::events::{consume, describe};
use super::report::divergence;
use crate::call::Call;
use crate::call::answer::Answer;
use crate::failure::Result;
use crate::flow::Flow;
use crate::mode::Begun;
use crate::ptrace::change;
use crate::readings::Misfit;
use crate::siginfo::{SigInfo, signo};
use crate::tape::{SYNCHRONOUS, Tape, digest};
use crate::task::Task;

/// Looks up the system call that the thread stands at.
///
/// # Errors
/// The tape has something else here.
pub fn answer(task: &mut Task, call: &Call) -> Result<Begun> {
    let resumed = std::mem::take(&mut task.parked);
    if changed(task)? {
        // A session image of the recorder's has it inside the call, where a replay parks at the switch that follows.
        task.parked = resumed;
        return Ok(Begun::Flow(Flow::Continue));
    }
    let (ticks, registers) = (task.ctx.ticks(), digest(&task.ctx));
    let nr = i64::from(call.nr);
    let event = task.tape.peek()?;
    let found = match &event {
        // A call that never returned.
        None => return Ok(Begun::Flow(Flow::Park)),
        Some(Event {
            kind: Kind::Exec(bytes),
            ticks: t,
            ..
        }) if *t == ticks && matches!(nr, libc::SYS_execve | libc::SYS_execveat) => {
            Some(Begun::Flow(Flow::exec(bytes)))
        }
        Some(Event {
            ticks: t,
            digest: d,
            kind,
        }) if *t == ticks && (*d == 0 || *d == registers) => match kind {
            Kind::End {
                how: Ending::ThreadExit,
                code,
                ..
            } if (nr == libc::SYS_exit || task.lodges && nr == libc::SYS_exit_group)
                && *code == call.int(0) =>
            {
                Some(Begun::Told(Answer::default()))
            }
            Kind::End {
                how: Ending::ProcessExit,
                code,
                ..
            } if matches!(nr, libc::SYS_exit | libc::SYS_exit_group)
                && *code == call.int(0) & 0xff =>
            {
                Some(Begun::Told(Answer::default()))
            }
            Kind::Syscall(s) if s.nr == call.nr && s.args.as_slice() == call.used() => {
                if s.switched && !resumed {
                    task.parked = true;
                    return Ok(Begun::Flow(Flow::Park));
                }
                Some(Begun::Told(Answer::of(s)))
            }
            _ => None,
        },
        Some(_) => None,
    };
    let Some(found) = found else {
        let expected = describe(task)?;
        let same = if matches!(task.tape.peek()?, Some(e) if e.digest != 0 && e.digest != registers)
        {
            " with other registers"
        } else {
            ""
        };
        return Err(divergence(
            task,
            &expected,
            &format!("{call} at tick {ticks}{same}"),
        ));
    };
    consume(task)?;
    Ok(found)
}

/// The reading of a clock that the thread makes here; `None` if the recording ended before
/// it.
///
/// # Errors
/// The tape has something else here.
pub fn reading(task: &mut Task, source: u32) -> Result<Option<Entry>> {
    let (ticks, registers) = (task.ctx.ticks(), digest(&task.ctx));
    loop {
        let next = task.tape.peek()?;
        let over = next.is_none();
        let goes_on = matches!(
            next,
            Some(Event { ticks: t, digest: d, kind: Kind::Readings { .. } })
                if (t, d) == (ticks, registers)
        );
        let Tape::In(tape) = &mut task.tape else {
            return Ok(None);
        };
        let expected = match tape.readings.take(source, ticks) {
            Ok(entry) => return Ok(Some(entry)),
            Err(Misfit::Over) if over => return Ok(None),
            Err(Misfit::Over) if goes_on => {
                consume(task)?;
                continue;
            }
            Err(Misfit::Over) => describe(task)?,
            Err(Misfit::Other(expected)) => expected,
        };
        let actual = format!(
            "a reading of {} at tick {ticks}",
            crate::readings::name(source as u8)
        );
        return Err(divergence(task, &expected, &actual));
    }
}

/// The values of a non-deterministic instruction.
///
/// # Errors
/// The tape has something else here.
pub fn instruction(task: &mut Task, number: u8) -> Result<[u64; 4]> {
    let (ticks, registers) = (task.ctx.ticks(), digest(&task.ctx));
    if let Some(Event {
        ticks: t,
        digest: d,
        kind: Kind::Instr { op, values, .. },
    }) = task.tape.peek()?
        && (op, t) == (number, ticks)
        && d == registers
    {
        consume(task)?;
        return Ok(values);
    }
    let expected = describe(task)?;
    Err(divergence(
        task,
        &expected,
        &format!("{} at tick {ticks}", crate::instr::name(number)),
    ))
}

/// Whether the next event is the end of one thread of several, here; it is taken then.
///
/// # Errors
/// A damaged trace.
pub fn ends_thread(task: &mut Task) -> Result<bool> {
    let ticks = task.ctx.ticks();
    let ends = task.tape.peek()?.is_some_and(|e| {
        let how = Ending::ThreadExit;
        e.ticks == ticks && matches!(e.kind, Kind::End { how: h, .. } if h == how)
    });
    if ends {
        consume(task)?;
    }
    Ok(ends)
}

/// A fault has happened: the tape must say so.
///
/// # Errors
/// The tape has something else here.
pub fn expect_fault(task: &mut Task, info: &SigInfo) -> Result<bool> {
    if changed(task)? {
        return Ok(false);
    }
    let sig = signo(info);
    let ticks = task.ctx.ticks();
    let fits = match task.tape.peek()? {
        Some(Event {
            ticks: t,
            kind: Kind::Signal(s),
            ..
        }) => t == ticks && i32::from(s.signo) == sig && s.steps == SYNCHRONOUS,
        Some(Event {
            ticks: t,
            kind:
                Kind::End {
                    how: Ending::Killed,
                    code,
                    steps,
                },
            ..
        }) => t == ticks && code == sig && steps == SYNCHRONOUS,
        // Ignored by the guest, or the recording ends here.
        None => false,
        _ => false,
    };
    if !fits {
        let expected = describe(task)?;
        let name = relive_kabi::signal_name(sig).unwrap_or("a signal".into());
        return Err(divergence(
            task,
            &expected,
            &format!(
                "{name} by the instruction at {:#x}, tick {ticks}",
                task.ctx.rip
            ),
        ));
    }
    let (ticks, registers) = (task.ctx.ticks(), digest(&task.ctx));
    consume(task)?;
    // A death by SIGBUS has the signal, which says where, before its own event.
    let same = |e: &Event<'_>| {
        let how = Ending::Killed;
        matches!(e.kind, Kind::End { how: h, code, steps } if h == how && code == sig && steps == SYNCHRONOUS)
            && (e.ticks, e.digest) == (ticks, registers)
    };
    if sig == libc::SIGBUS && task.tape.peek()?.is_some_and(|e| same(&e)) {
        consume(task)?;
    }
    Ok(true)
}

/// A tracer has changed the task at the call, or at the fault, that it stands at: makes the changes, and
/// returns whether there are any.
///
/// # Errors
/// A damaged trace.
pub fn changed(task: &mut Task) -> Result<bool> {
    // Every call comes by here, and the next event of nearly all is the call: no need to decode it.
    if task.tape.outline()?.is_some_and(|next| next.syscall) {
        return Ok(false);
    }
    let (ticks, registers) = (task.ctx.ticks(), digest(&task.ctx));
    let bytes = match task.tape.peek()? {
        Some(Event {
            ticks: t,
            digest: d,
            kind: Kind::Signal(s),
        }) if s.signo == change::SIGNO
            && s.steps == SYNCHRONOUS
            && t == ticks
            && (d == 0 || d == registers) =>
        {
            s.siginfo.to_vec()
        }
        _ => return Ok(false),
    };
    consume(task)?;
    change::replay(task, &bytes)?;
    Ok(true)
}
