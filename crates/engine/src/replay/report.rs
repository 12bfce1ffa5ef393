//! Divergence: what was expected and what happened, side by side, with the way there.

use std::collections::VecDeque;

use relive_trace::{Event, Kind};

use crate::failure::Failure;
use crate::task::Task;

/// The last events of a thread, as text.
#[derive(Default, Clone)]
pub struct History(VecDeque<String>);

const KEPT: usize = 6;

impl History {
    /// Remembers an event.
    pub fn note(&mut self, event: &Event<'_>) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(show(event));
    }
}

/// One event in a line.
#[must_use]
pub fn show(event: &Event<'_>) -> String {
    let what = match event.kind {
        Kind::Syscall(s) => {
            let name = relive_kabi::row(u64::from(s.nr)).map_or("unknown", |r| r.name);
            let args: Vec<String> = s
                .args
                .as_slice()
                .iter()
                .map(|a| format!("{a:#x}"))
                .collect();
            format!("{name}({}) = {}", args.join(", "), s.result)
        }
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
    super::session::with(|s| {
        if let Some(h) = s.history.get(&task.id()) {
            text.push_str("\n  the thread's last events:");
            for line in &h.0 {
                text.push_str("\n    ");
                text.push_str(line);
            }
        }
    });
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
