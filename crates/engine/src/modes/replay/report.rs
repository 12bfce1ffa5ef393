//! Divergence: the expected and the actual event side by side, with the way there.

use relive_trace::{Args, Event, Kind};

use super::hook_state::open_tape;
use crate::failure::Failure;
use crate::tape::Tape;
use crate::task::Task;

/// So many events before a divergence are shown.
const SHOWN: u64 = 6;

fn call(nr: u32, args: &Args, result: i64) -> String {
    let name = relive_kabi::row(u64::from(nr)).map_or("unknown", |r| r.name);
    let args: Vec<String> = args.as_slice().iter().map(|a| format!("{a:#x}")).collect();
    format!("{name}({}) = {result}", args.join(", "))
}

/// One event in a line.
#[must_use]
pub fn show(event: &Event<'_>) -> String {
    let what = match event.kind {
        Kind::Syscall(s) => call(s.nr, &s.args, s.result),
        Kind::Signal(s) if s.signo == 0 => "changes by a tracer".to_owned(),
        Kind::Signal(s) => format!(
            "signal {} after {} steps",
            relive_kabi::signal_name(s.signo.into()).unwrap_or("?".into()),
            s.steps
        ),
        Kind::Switch { steps } => format!("switch after {steps} steps"),
        Kind::Instr { op, .. } => crate::instr::name(op).to_owned(),
        Kind::Exec(_) => "exec".to_owned(),
        Kind::Memory(_) => "shared memory".to_owned(),
        Kind::Readings { .. } => "more readings of clocks".to_owned(),
        Kind::Edge { at, thread, op, .. } => {
            format!("operation {at} follows operation {op} of thread {thread}")
        }
        Kind::Moment { .. } => "a moment".to_owned(),
        Kind::Mark { event: true, .. } => "a mark in front of the next event".to_owned(),
        Kind::Mark { pc, .. } => format!("a mark in front of {pc:#x}"),
        Kind::Behind {
            thread, mark: 0, ..
        } => format!("behind the end of thread {thread}"),
        Kind::Behind { thread, mark, .. } => format!("behind mark {mark} of thread {thread}"),
        other => format!("{other:?}"),
    };
    format!("{what} at tick {}", event.ticks)
}

/// The events that the task has behind it, read from its tape once more: nothing is kept of
/// them on the way.
fn last_events(task: &Task) -> Vec<String> {
    let Tape::In(here) = &task.tape else {
        return Vec::new();
    };
    let Ok(Tape::In(tape)) = open_tape(task.id()) else {
        return Vec::new();
    };
    let (mut tape, here) = (tape.into_reader(), here.position());
    let mut lines = Vec::new();
    // Unreadable events were reported when they were read first.
    while tape.position() < here && matches!(tape.outline(), Ok(Some(_))) {
        if tape.position() + SHOWN < here {
            let _ = tape.skip();
        } else if let Ok(Some(event)) = tape.next() {
            lines.push(show(&event));
        }
    }
    lines
}

/// A divergence at the task's present position.
#[must_use]
pub fn divergence(task: &Task, expected: &str, actual: &str) -> Failure {
    let mut text = format!(
        "the replay left the recording in thread {} at tick {}, pc {:#x}\n  recorded: {expected}\n  replayed: {actual}",
        task.id(),
        task.ctx.ticks(),
        task.ctx.rip
    );
    let last = last_events(task);
    if !last.is_empty() {
        text.push_str("\n  the thread's last events:");
        for line in &last {
            text.push_str("\n    ");
            text.push_str(line);
        }
    }
    text.push_str("\n  registers:");
    const NAMES: [&str; 16] = [
        "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
        "r13", "r14", "r15",
    ];
    for (i, (name, value)) in NAMES.iter().zip(task.ctx.gpr).enumerate() {
        text.push_str(&format!(
            "{}{name}={value:#x}",
            if i % 4 == 0 { "\n    " } else { " " }
        ));
    }
    Failure::divergence(text)
}

/// No thread can go on: the task and all others wait for each other.
pub fn all_wait(task: &Task) -> Failure {
    Failure::divergence(format!(
        "thread {} waits at tick {} for an operation of another thread, and so do all others: the recording does not say enough of their order",
        task.id(),
        task.ctx.ticks()
    ))
}
