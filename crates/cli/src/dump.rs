//! `relive dump`: events as text or JSON, one line each.

mod object;
mod text;

use std::io::{self, Write};

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus;
use relive_trace::{Event, Kind, Syscall, TapeId, Trace, Writes};

use self::object::object;
use self::text::text;
use crate::args::DumpArgs;
use crate::output::{self, Stop};
use crate::traces;

/// Prints the requested events.
///
/// # Errors
/// The trace is damaged; the events before the damage are printed.
pub fn execute(args: &DumpArgs) -> Result<EndStatus, Failure> {
    let trace = traces::open(args.trace.trace.as_deref())?;
    let wanted = |id: &TapeId| {
        args.process.is_none_or(|p| p == id.process) && args.thread.is_none_or(|t| t == id.thread)
    };
    let ids: Vec<TapeId> = trace
        .tapes()
        .iter()
        .map(|tape| tape.id)
        .filter(wanted)
        .collect();
    if ids.is_empty() && (args.process.is_some() || args.thread.is_some()) {
        return Err(Failure::setup(
            "the recording has no such process or thread: relive info lists them",
        ));
    }
    let mut events = 0;
    let printed = output::print(|out| {
        ids.iter().try_for_each(|id| {
            events += tape(out, &trace, *id, args)?;
            Ok(())
        })
    });
    if traces::is_cut_off(&trace) {
        output::complain(
            "the recording was cut off before its end: these are the events that are there",
        );
    }
    let is_part = args.from > 0 || args.to.is_some();
    match printed {
        Ok(_) if events == 0 && is_part => Err(Failure::setup(
            "there are no events from --from to --to: relive info tells how many there are",
        )),
        printed => printed,
    }
}

/// Prints the requested events of a tape. How many there were.
fn tape(out: &mut dyn Write, trace: &Trace, id: TapeId, args: &DumpArgs) -> Result<u64, Stop> {
    let mut tape = trace.tape(id)?;
    let mut printed = 0;
    loop {
        let index = tape.position();
        if args.to.is_some_and(|to| index > to) {
            return Ok(printed);
        }
        let Some(event) = tape.next()? else {
            return Ok(printed);
        };
        if index >= args.from {
            with_input(trace, event, |event| one(out, id, index, event, args.json))?;
            printed += 1;
        }
    }
}

/// Shows an event with its referenced bytes in place of the references.
fn with_input(
    trace: &Trace,
    event: Event<'_>,
    show: impl FnOnce(&Event<'_>) -> io::Result<()>,
) -> Result<(), Stop> {
    let Kind::Syscall(call) = event.kind else {
        return Ok(show(&event)?);
    };
    let written = trace.input().written(&call)?;
    let slices: Vec<(u64, &[u8])> = written.iter().map(|(at, b)| (*at, &b[..])).collect();
    let writes = Writes::new(&slices);
    show(&Event {
        kind: Kind::Syscall(Syscall { writes, ..call }),
        ..event
    })?;
    Ok(())
}

fn one(
    out: &mut dyn Write,
    id: TapeId,
    index: u64,
    event: &Event<'_>,
    json: bool,
) -> io::Result<()> {
    if json {
        return writeln!(out, "{}", object(id, index, event));
    }
    // A schedule counts no ticks.
    let at = if id.is_schedule() {
        String::new()
    } else {
        format!("@{}", event.ticks)
    };
    writeln!(
        out,
        "{:<11} {index:>6} {at:>10}  {}",
        id.to_string(),
        text(event)
    )
}
