//! An event as a line of text.

use relive_trace::{Ending, Event, Image, Kind, Origin, Readings, SOURCES, Signal, Start};

use crate::{escape, format, syscall};

/// The event's kind and data.
pub(super) fn text(event: &Event<'_>) -> String {
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
        Kind::Mark { event: true, .. } => "mark in front of the next event".to_owned(),
        Kind::Mark { pc, .. } => format!("mark in front of {pc:#x}"),
        Kind::Behind {
            event,
            thread,
            mark,
        } => {
            let what = match mark {
                0 => format!("the end of thread {thread}"),
                mark => format!("mark {mark} of thread {thread}"),
            };
            let event = if event { "the next event " } else { "" };
            format!("{event}behind {what}")
        }
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
    if signal.signo == 0 {
        return format!(
            "changes by a tracer, {} bytes{}",
            signal.siginfo.len(),
            after(signal.steps)
        );
    }
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
