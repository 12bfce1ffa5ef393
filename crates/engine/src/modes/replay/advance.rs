//! Bringing one thread to its next event, and matching what it does there with the tape.

use relive_dbt::Stop;
use relive_host::context::PLENTY;
use relive_host::reading::Entry;
use relive_trace::{Ending, Event, Kind};

use super::divergence;
use super::report::show;
use crate::failure::Result;
use crate::kernel::{Answer, Call};
use crate::mode::Begun;
use crate::readings::Misfit;
use crate::signals::{self, SigInfo, signo};
use crate::tape::{SYNCHRONOUS, Tape, digest};
use crate::task::{End, Flow, Task};
use crate::{kernel, stops};

/// The next event, as far as it decides how to run towards it.
pub(super) enum Target {
    /// At the end of the tape.
    End,
    /// First event of the tape.
    Start,
    /// The thread itself causes it: system call, instruction, fault.
    Own { ticks: u64 },
    /// It happens to the thread at a position.
    Position {
        ticks: u64,
        steps: u32,
        digest: u32,
        what: Happening,
    },
}

pub(super) enum Happening {
    Signal(SigInfo),
    Switch,
    Killed(i32),
}

/// Runs the task up to and through its next event (or a stop on the way). `more_turns`:
/// other threads have turns after this one.
///
/// # Errors
/// Divergence.
pub fn advance(task: &mut Task, more_turns: bool) -> Result<Flow> {
    if task.parked {
        if task.vforked.is_some() && task.tape.at_end()? {
            task.parked = false;
            super::births::resume_parent(task)?;
            return Ok(Flow::Continue);
        }
        // The baton is back inside the call.
        return kernel::syscall(task, relive_host::GuestAddr(task.ctx.rip + 2));
    }
    match target(task)? {
        // A vfork child that was killed: its parent goes on.
        Target::End if super::births::resume_parent(task)? => Ok(Flow::Continue),
        // The thread gave the baton away once more: inside a call that never returned.
        Target::End if more_turns => {
            signals::finish_restart(task);
            own(task, u64::MAX / 4)
        }
        Target::End => Ok(Flow::Park),
        Target::Start => {
            consume(task)?;
            Ok(Flow::Continue)
        }
        Target::Own { ticks } => {
            signals::finish_restart(task);
            own(task, ticks)
        }
        Target::Position {
            ticks,
            steps,
            digest: recorded,
            what,
        } => {
            if ticks != task.ctx.ticks() || steps != 0 {
                signals::finish_restart(task);
            }
            reach(task, ticks, steps)?;
            arrive(task, steps, recorded, what)
        }
    }
}

/// As [`advance`], and on through further system calls as long as nothing but them comes: nobody
/// wants to look at the process between them.
///
/// # Errors
/// Divergence.
pub(super) fn advance_on(task: &mut Task, more_turns: bool) -> Result<Flow> {
    let mut flow = advance(task, more_turns)?;
    while matches!(flow, Flow::Continue)
        && !task.parked
        && !super::session::has_news()
        && let Some(ticks) = task.tape.next_call()
    {
        signals::finish_restart(task);
        flow = own(task, ticks)?;
    }
    Ok(flow)
}

/// What happens to the thread at a position that it has been brought to; `recorded` is the
/// digest of its registers there, 0 for none.
pub(super) fn arrive(task: &mut Task, steps: u32, recorded: u32, what: Happening) -> Result<Flow> {
    if recorded != 0 && recorded != digest(&task.ctx) {
        let expected = describe(task)?;
        return Err(divergence(
            task,
            &expected,
            "other register values at that position",
        ));
    }
    consume(task)?;
    task.steps = steps;
    match what {
        Happening::Signal(info) => signals::deliver_recorded(task, &info),
        Happening::Switch => Ok(Flow::Park),
        Happening::Killed(sig) => {
            kernel::tasks::release_locks(task);
            Ok(Flow::ProcessEnd(End::Signal(sig)))
        }
    }
}

/// What the tape says comes next.
pub(super) fn target(task: &mut Task) -> Result<Target> {
    match task.tape.outline()? {
        None => return Ok(Target::End),
        Some(o) if o.syscall => return Ok(Target::Own { ticks: o.ticks }),
        Some(_) => {}
    }
    let Some(e) = task.tape.peek()? else {
        return Ok(Target::End);
    };
    let (ticks, digest) = (e.ticks, e.digest);
    Ok(match e.kind {
        Kind::Start(_) => Target::Start,
        Kind::Exec(_) if ticks == 0 => Target::Own { ticks },
        Kind::Signal(s) if s.steps != SYNCHRONOUS => {
            let mut info = [0; 128];
            let n = s.siginfo.len().min(128);
            info[..n].copy_from_slice(&s.siginfo[..n]);
            Target::Position {
                ticks,
                steps: s.steps,
                digest,
                what: Happening::Signal(info),
            }
        }
        Kind::Switch { steps } => Target::Position {
            ticks,
            steps,
            digest,
            what: Happening::Switch,
        },
        Kind::End {
            how: Ending::Killed,
            code,
            steps,
        } if steps != SYNCHRONOUS => Target::Position {
            ticks,
            steps,
            digest,
            what: Happening::Killed(code),
        },
        _ => Target::Own { ticks },
    })
}

/// Runs until the thread causes its next event, which is due at `ticks`.
fn own(task: &mut Task, ticks: u64) -> Result<Flow> {
    // The very first event of a process is its image; nothing runs before.
    if task.ctx.rip == 0 {
        return first_image(task);
    }
    if task.ctx.ticks() > ticks {
        let expected = describe(task)?;
        return Err(divergence(task, &expected, "the thread is past that tick"));
    }
    loop {
        // The event comes by itself: a budget that ends well behind it saves exits, and one
        // that ends at all tells of a thread that has gone astray.
        // Events that follow closely share one, because dealing costs more than they do.
        let ahead = (ticks - task.ctx.ticks()).min(PLENTY as u64 / 4) as i64;
        if !(ahead + 1..4 * ahead + (1 << 16)).contains(&task.ctx.granted()) {
            task.ctx.grant(2 * ahead + (1 << 14));
        }
        let stop = task.go(false);
        match stop {
            Stop::Budget { .. } | Stop::Pause { .. } if task.ctx.ticks() <= ticks => {}
            Stop::Budget { .. } | Stop::Pause { .. } => {
                let expected = describe(task)?;
                return Err(divergence(
                    task,
                    &expected,
                    "the thread ran on past that tick",
                ));
            }
            stop => return stops::handle(task, stop),
        }
    }
}

fn first_image(task: &mut Task) -> Result<Flow> {
    let bytes = match task.tape.peek()?.map(|e| e.kind) {
        Some(Kind::Exec(b)) => b.to_vec(),
        _ => {
            let expected = describe(task)?;
            return Err(divergence(task, &expected, "a program without an image"));
        }
    };
    consume(task)?;
    Ok(Flow::Exec(bytes))
}

/// Brings the thread to the position (ticks, steps).
fn reach(task: &mut Task, ticks: u64, steps: u32) -> Result<()> {
    while task.ctx.ticks() < ticks {
        task.ctx.grant((ticks - task.ctx.ticks()) as i64);
        match task.go(false) {
            Stop::Budget { .. } | Stop::Pause { .. } => {}
            stop => pass(task, stop)?,
        }
    }
    if task.ctx.ticks() > ticks {
        let expected = describe(task)?;
        return Err(divergence(task, &expected, "the thread is past that tick"));
    }
    let mut done = 0;
    while done < steps {
        task.ctx.grant(PLENTY);
        match task.go(true) {
            Stop::Stepped { .. } if task.ctx.ticks() == ticks => done += 1,
            Stop::Stepped { .. } | Stop::Budget { .. } | Stop::Pause { .. } => {
                let expected = describe(task)?;
                return Err(divergence(task, &expected, "a tick came first"));
            }
            stop => pass(task, stop)?,
        }
    }
    Ok(())
}

/// A stop on the way to a position: only those that leave no event may come.
pub(super) fn pass(task: &mut Task, stop: Stop) -> Result<()> {
    let quiet = match &stop {
        Stop::CacheFull { .. } | Stop::Internal(_) | Stop::Unsupported { .. } => true,
        Stop::Instr { op, .. } => !crate::instr::logged(op) || crate::instr::is_reading(op),
        _ => false,
    };
    if quiet {
        return stops::handle(task, stop).map(|_| ());
    }
    let expected = describe(task)?;
    let actual = match &stop {
        Stop::Syscall { .. } => Call::at(task).to_string(),
        other => format!("{other:?}"),
    };
    Err(divergence(task, &expected, &actual))
}

pub(super) fn describe(task: &mut Task) -> Result<String> {
    Ok(task
        .tape
        .peek()?
        .map_or("the end of the recording".to_owned(), |e| show(&e)))
}

/// Looks up the system call that the thread stands at.
///
/// # Errors
/// The tape has something else here.
pub fn answer(task: &mut Task, call: &Call) -> Result<Begun> {
    let resumed = std::mem::take(&mut task.parked);
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
            Some(Begun::Flow(Flow::Exec(bytes.to_vec())))
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
            } if nr == libc::SYS_exit && *code == call.int(0) => {
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
pub fn expect_fault(task: &mut Task, info: &SigInfo) -> Result<()> {
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
    Ok(())
}

/// Consumes the next event of the task's tape.
///
/// # Errors
/// A damaged trace, or a divergence: there are readings of clocks before it.
pub fn consume(task: &mut Task) -> Result<()> {
    if let Some(batch) = task.tape.unread() {
        let expected = format!("{} ({} in all)", batch.next(), batch.left());
        let actual = "its next event without them";
        return Err(divergence(task, &expected, actual));
    }
    task.tape.skip()?;
    super::session::count_event();
    task.at_event();
    Ok(())
}
