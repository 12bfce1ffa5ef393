//! Divergence: what was expected and what happened, side by side, with the way there.

use std::collections::VecDeque;
use std::fmt;

use relive_trace::{Args, Event, Kind};

use crate::failure::Failure;
use crate::task::Task;

/// The last events of a thread.
#[derive(Default, Clone)]
pub struct History(VecDeque<Line>);

/// One of them: as text, but for the common kind, which must cost nothing.
#[derive(Clone)]
enum Line {
    Call {
        nr: u32,
        args: Args,
        result: i64,
        ticks: u64,
    },
    Text(String),
}

const KEPT: usize = 6;

impl History {
    /// Remembers an event.
    pub fn note(&mut self, event: &Event<'_>) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(match event.kind {
            Kind::Syscall(s) => Line::Call {
                nr: s.nr,
                args: s.args,
                result: s.result,
                ticks: event.ticks,
            },
            _ => Line::Text(show(event)),
        });
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call {
                nr,
                args,
                result,
                ticks,
            } => write!(f, "{} at tick {ticks}", call(*nr, args, *result)),
            Self::Text(text) => f.write_str(text),
        }
    }
}

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
        Kind::Signal(s) => format!(
            "signal {} after {} steps",
            relive_kabi::signal_name(s.signo.into()).unwrap_or("?".into()),
            s.steps
        ),
        Kind::Switch { steps } => format!("switch after {steps} steps"),
        Kind::Instr { op, .. } => crate::instr::name(op).to_owned(),
        Kind::Exec(_) => "exec".to_owned(),
        Kind::Memory(_) => "shared memory".to_owned(),
        other => format!("{other:?}"),
    };
    format!("{what} at tick {}", event.ticks)
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
    if !task.history.0.is_empty() {
        text.push_str("\n  the thread's last events:");
        for line in &task.history.0 {
            text.push_str("\n    ");
            text.push_str(&line.to_string());
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
    Failure::Divergence(text)
}
