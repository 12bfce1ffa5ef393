//! `relive dump`: events as text or JSON, one line each.

use std::io::{self, Write};

use relive_engine::Failure;
use relive_engine::supervisor::EndStatus;
use relive_trace::{
    Ending, Event, Image, Kind, Origin, Readings, SOURCES, Signal, Start, Syscall, TapeId, Trace,
    Writes,
};
use serde_json::{Map, Value, json};

use crate::args::DumpArgs;
use crate::output::{self, Stop};
use crate::{escape, format, syscall, traces};

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
    let printed = output::print(|out| ids.iter().try_for_each(|id| tape(out, &trace, *id, args)));
    if traces::is_cut_off(&trace) {
        output::complain(
            "the recording was cut off before its end: these are the events that are there",
        );
    }
    printed
}

fn tape(out: &mut dyn Write, trace: &Trace, id: TapeId, args: &DumpArgs) -> Result<(), Stop> {
    let mut tape = trace.tape(id)?;
    loop {
        let index = tape.position();
        if args.to.is_some_and(|to| index > to) {
            return Ok(());
        }
        let Some(event) = tape.next()? else {
            return Ok(());
        };
        if index >= args.from {
            with_input(trace, event, |event| one(out, id, index, event, args.json))?;
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

/// The event's kind and data.
fn text(event: &Event<'_>) -> String {
    match event.kind {
        Kind::Start(start) => begun(&start),
        Kind::Syscall(call) => syscall::line(&call),
        Kind::Signal(signal) => signalled(&signal),
        Kind::Switch { steps } => format!("switch{}", after(steps)),
        Kind::Instr { op, values, n } => {
            let values: Vec<String> = values[..usize::from(n)]
                .iter()
                .map(|value| format!("{value:#x}"))
                .collect();
            format!(
                "{} = {}",
                relive_engine::instruction_name(op),
                values.join(" ")
            )
        }
        Kind::Exec(image) => program(image),
        Kind::Turn { thread } => format!("turn of thread {thread}"),
        Kind::Handover {
            thread,
            process,
            turn,
        } => format!("turn of thread {thread}, after {}", before(process, turn)),
        Kind::After { process, turn } => format!("… and after {}", before(process, turn)),
        Kind::Memory(writes) => {
            let bytes = writes.iter().map(|(_, b)| b.len() as u64).sum();
            format!("shared memory: {}", format::count(bytes, "byte"))
        }
        Kind::Readings {
            full,
            since,
            readings,
        } => read(full, event.ticks.wrapping_sub(since), &readings),
        Kind::Moment { event, since, took } => match event {
            true => format!("{since} cycles later, an event of {took} cycles"),
            false => format!("{since} cycles later"),
        },
        Kind::Edge {
            at,
            event,
            thread,
            op,
        } => format!(
            "operation {at}{} after operation {op} of thread {thread}",
            if event { " (the next event)" } else { "" }
        ),
        Kind::Checksum { at, value } => format!("checksum {at:#x} = {value:#018x}"),
        Kind::End { how, code, steps } => format!("{}{}", ended(how, code), after(steps)),
    }
}

/// How often each clock was read, and since when.
fn read(full: bool, first: u64, readings: &Readings<'_>) -> String {
    let mut counts = [0u64; SOURCES];
    readings.for_each(|reading| counts[usize::from(reading.source)] += 1);
    let mut parts = Vec::new();
    for (source, &n) in counts.iter().enumerate().filter(|(_, n)| **n > 0) {
        let name = relive_engine::clock_name(source as u8);
        parts.push(match n {
            1 => name.to_owned(),
            n => format!("{name} {n} times"),
        });
    }
    let more = if full { ", and one more" } else { "" };
    format!("read since tick {first}: {}{more}", parts.join(", "))
}

/// The turn of another process that a turn follows.
fn before(process: u32, turn: Option<u32>) -> String {
    match turn {
        Some(turn) => format!("turn {turn} of p{process}"),
        None => format!("the end of p{process}"),
    }
}

fn begun(start: &Start) -> String {
    let how = match start.origin {
        Origin::Root => return format!("started: process {}, thread {}", start.pid, start.tid),
        Origin::Thread => "thread of",
        Origin::Fork => "forked by",
        Origin::Vfork => "vforked by",
    };
    format!(
        "{how} {}: process {}, thread {}",
        start.parent, start.pid, start.tid
    )
}

fn after(steps: u32) -> String {
    if steps == 0 {
        String::new()
    } else {
        format!(" after {}", format::count(steps.into(), "instruction"))
    }
}

/// A signal with the sender or the address, by the layout of `siginfo_t` (sigaction(2)).
fn signalled(signal: &Signal<'_>) -> String {
    let word = |at: usize| {
        signal
            .siginfo
            .get(at..at + 4)
            .map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]]))
    };
    let address = signal
        .siginfo
        .get(16..24)
        .and_then(|b| b.try_into().ok())
        .map(u64::from_le_bytes);
    let number = i32::from(signal.signo);
    let fault = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGILL,
        libc::SIGFPE,
        libc::SIGTRAP,
    ]
    .contains(&number);
    let details = match (word(8), word(16), address) {
        (Some(code), _, Some(address)) if fault && code > 0 => {
            format!(" code {code} at address {address:#x}")
        }
        (Some(code), Some(pid), _) if code <= 0 || number == libc::SIGCHLD => {
            format!(" code {code} from process {pid}")
        }
        (Some(code), _, _) => format!(" code {code}"),
        (None, _, _) => String::new(),
    };
    format!(
        "signal {}{details}{}",
        format::signal(number),
        after(signal.steps)
    )
}

fn program(image: &[u8]) -> String {
    match Image::decode(image) {
        Ok(image) => {
            let argv: Vec<String> = image.argv.iter().map(|word| escape::bytes(word)).collect();
            format!(
                "program {} [{}], {}",
                escape::line(&image.path),
                argv.join(", "),
                format::count(image.maps.len() as u64, "map")
            )
        }
        Err(error) => format!("program: {error}"),
    }
}

fn ended(how: Ending, code: i32) -> String {
    match how {
        Ending::ThreadExit => format!("thread exit {code}"),
        Ending::ProcessExit => format!("process exit {code}"),
        Ending::Killed => format!("killed by {}", format::signal(code)),
    }
}

/// The event as an object. Numbers that may need more than 53 bits are hexadecimal strings.
fn object(id: TapeId, index: u64, event: &Event<'_>) -> Value {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| drop(object.insert(name.to_owned(), value));
    let hex = |value: u64| json!(format!("{value:#x}"));
    put("process", json!(id.process));
    put(
        "thread",
        if id.is_schedule() {
            Value::Null
        } else {
            json!(id.thread)
        },
    );
    put("index", json!(index));
    put("ticks", json!(event.ticks));
    put("digest", json!(event.digest));
    let kind = match event.kind {
        Kind::Start(start) => {
            put("parent", json!(start.parent.to_string()));
            put("pid", json!(start.pid));
            put("tid", json!(start.tid));
            "start"
        }
        Kind::Syscall(call) => {
            put("name", json!(syscall::name(&call)));
            put("nr", json!(call.nr));
            put(
                "args",
                call.args
                    .as_slice()
                    .iter()
                    .map(|&value| hex(value))
                    .collect(),
            );
            put("result", json!(call.result));
            put("errno", json!(syscall::errno(&call)));
            put("switched", json!(call.switched));
            put("order", json!(call.order));
            put("stream", json!(call.stream));
            put("writes", call.writes.iter().map(|(at, bytes)| json!({"address": hex(at), "bytes": bytes.len(), "text": escape::bytes(bytes)})).collect());
            put(
                "from_input",
                json!(call.refs.iter().map(|r| r.length).sum::<u64>()),
            );
            put("extra_bytes", json!(call.extra.len()));
            "syscall"
        }
        Kind::Signal(signal) => {
            put("signal", json!(format::signal(signal.signo.into())));
            put("steps", json!(signal.steps));
            "signal"
        }
        Kind::Switch { steps } => {
            put("steps", json!(steps));
            "switch"
        }
        Kind::Instr { op, values, n } => {
            put("name", json!(relive_engine::instruction_name(op)));
            put(
                "values",
                values[..usize::from(n)]
                    .iter()
                    .map(|&value| hex(value))
                    .collect(),
            );
            "instruction"
        }
        Kind::Exec(_) => "program",
        Kind::Turn { thread } => {
            put("turn", json!(thread));
            "turn"
        }
        Kind::Handover {
            thread,
            process,
            turn,
        } => {
            put("turn", json!(thread));
            put("after_process", json!(process));
            put("after_turn", json!(turn));
            "turn"
        }
        Kind::After { process, turn } => {
            put("after_process", json!(process));
            put("after_turn", json!(turn));
            "after"
        }
        Kind::Memory(writes) => {
            put(
                "writes",
                writes
                    .iter()
                    .map(|(at, bytes)| json!({"address": hex(at), "bytes": bytes.len()}))
                    .collect(),
            );
            "memory"
        }
        Kind::Readings {
            full,
            since,
            readings,
        } => {
            put("full", json!(full));
            put("first_tick", json!(event.ticks.wrapping_sub(since)));
            put(
                "readings",
                readings
                    .to_vec()
                    .into_iter()
                    .map(|r| {
                        let name = relive_engine::clock_name(r.source);
                        json!({"of": name, "value": hex(r.value), "second": r.extra})
                    })
                    .collect(),
            );
            "readings"
        }
        Kind::Moment { event, since, took } => {
            put("of_event", json!(event));
            put("since", json!(since));
            put("took", json!(took));
            "moment"
        }
        Kind::Edge {
            at,
            event,
            thread,
            op,
        } => {
            put("operation", json!(at));
            put("of_event", json!(event));
            put("after_thread", json!(thread));
            put("after_operation", json!(op));
            "edge"
        }
        Kind::Checksum { at, value } => {
            put("at", hex(at));
            put("value", hex(value));
            "checksum"
        }
        Kind::End { code, steps, .. } => {
            put("code", json!(code));
            put("steps", json!(steps));
            "end"
        }
    };
    put("kind", json!(kind));
    put("text", json!(text(event)));
    object.into()
}
