//! The signals that a task takes in from its host's handler: the guest's own, and those by which tracers and
//! tracees wake each other. Must never deliver one.

use std::sync::atomic::Ordering;

use relive_host::call_out::has_lost_info;

use super::pokes::{self, Meaning};
use super::slots::SLOTS;
use super::standing::state;
use crate::sigaction::SIG_IGN;
use crate::siginfo::{SigInfo, signo};
use crate::task::Task;

/// Takes in the signals that the host's handler has noted.
pub fn take_in(task: &mut Task) {
    if std::mem::take(&mut task.ctx.pending) == 0 {
        return;
    }
    let n = std::mem::take(&mut task.ctx.noted) as usize;
    let noted = task.ctx.signals;
    for info in &noted[..n] {
        if pokes::is_news(info) && keeps_silent(task) {
            continue;
        }
        match pokes::meaning(*info) {
            Meaning::Guest(info) if is_lost_poke(task, &info) => {
                task.looks = true;
            }
            Meaning::Guest(info) => task.signals.held.push_back(info),
            Meaning::Look => task.looks = true,
            Meaning::Nothing => {}
        }
    }
}

/// Whether a tracer wants no SIGCHLD for stops.
fn keeps_silent(task: &Task) -> bool {
    let action = task.process.state().actions[libc::SIGCHLD as usize];
    action.flags & libc::SA_NOCLDSTOP as u64 != 0 || action.handler == SIG_IGN
}

/// Whether a signal may be one by which a tracer or a tracee wakes the task, without its marks.
fn is_lost_poke(task: &Task, info: &SigInfo) -> bool {
    let is_tracer = || {
        crate::shm::shared().is_some_and(|shm| {
            let mut tracees = SLOTS.of(shm).of_tracer(task.process.pid);
            tracees.next().is_some()
        })
    };
    signo(info) == libc::SIGTRAP && has_lost_info(info) && (takes_part(task) || is_tracer())
}

/// Whether the task is traced, or a thread of its process traces or is traced.
fn takes_part(task: &Task) -> bool {
    let others = crate::shm::shared().is_some_and(|shm| {
        let mut threads = SLOTS.of(shm).of_process(task.process.pid);
        threads.any(|(_, s)| !matches!(s.state(), state::FREE | state::ENDED))
    });
    task.traced.is_some() || others
}

/// The kernel's dispositions of the process: while it is traced, its host takes all signals, also those
/// that the guest ignores.
pub fn note_signals(task: &Task) {
    let host = task.mode().host();
    host.take_all(takes_part(task));
    let actions = task.process.state().actions;
    for (sig, action) in (0..).zip(&actions).skip(1) {
        task.mode().host().action(sig, action);
    }
}

/// Whether a tracer has wishes that the task does not know yet.
#[must_use]
pub fn is_wanted(task: &Task) -> bool {
    let Some(shm) = crate::shm::shared() else {
        return false;
    };
    let slot = SLOTS.of(shm).of_thread(task.tid);
    slot.is_some_and(|(_, s)| s.state() == state::CLAIMED || s.wishes.load(Ordering::Acquire) != 0)
}
