//! Waiting until a signal that stops a process has done so. kill(2) returns before: a member of the group that is still about to stop
//! would get the baton, and stop with it. Must never wait for a process that will not stop.

use std::sync::atomic::Ordering::Acquire;
use std::time::{Duration, Instant};

use super::processes::{PROCESSES, standing};
use crate::ids;
use crate::shm::Shm;

/// Time between two looks.
const LOOK: Duration = Duration::from_micros(100);
/// Time for a process to stop. One whose first thread is held up in the kernel may take longer, and then holds up the others of the group until
/// it goes on.
const PATIENCE: Duration = Duration::from_millis(500);

/// Waits for the members that `sig`, which has been sent, is about to stop: those with these kernel ids.
pub fn await_stops(shm: Shm, sig: i32, is_meant: impl Fn(i32) -> bool) {
    let slots = PROCESSES.of(&shm).first(shm.processes());
    let members = slots.filter(|slot| slot.standing.load(Acquire) == standing::MEMBER);
    let mut waiting: Vec<StoppingProcess> = members
        .map(|slot| slot.pid.load(Acquire))
        .filter(|&pid| is_meant(pid as i32))
        .map(|pid| StoppingProcess { pid, quiet: 0 })
        .collect();
    let until = Instant::now() + PATIENCE;
    loop {
        waiting.retain_mut(|process| process.may_stop(sig));
        if waiting.is_empty() || Instant::now() > until {
            return;
        }
        std::thread::sleep(LOOK);
    }
}

/// A process that may be about to stop.
struct StoppingProcess {
    pid: u32,
    /// Looks in which nothing said so.
    quiet: u32,
}

impl StoppingProcess {
    /// Whether it may be about to, and has not stopped as a whole. A thread that has taken the signal says nothing for a moment.
    fn may_stop(&mut self, sig: i32) -> bool {
        let threads = threads(self.pid, sig);
        let is_stopped = |thread: &SeenThread| matches!(thread.state, b'T' | b't' | b'Z' | b'X');
        if threads.iter().all(is_stopped) {
            return false;
        }
        let begins = threads.iter().any(is_stopped)
            || threads.iter().any(|thread| thread.pending && thread.takes);
        self.quiet = if begins { 0 } else { self.quiet + 1 };
        self.quiet < 3
    }
}

/// A thread as proc(5) shows it in its `status`.
struct SeenThread {
    state: u8,
    /// The signal waits for it, or for its process.
    pending: bool,
    /// It does not block it.
    takes: bool,
}

fn threads(pid: u32, sig: i32) -> Vec<SeenThread> {
    let all = ids::statuses(pid).unwrap_or_default();
    all.iter()
        .map(|text| SeenThread::parse(&String::from_utf8_lossy(text), sig))
        .collect()
}

/// A field of a `status`.
fn field<'a>(text: &'a str, name: &str) -> &'a str {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap_or_default().trim()
}

/// Whether a set of signals in a `status` (proc_pid_status(5)) has this one.
pub fn has_signal(text: &str, set: &str, sig: i32) -> bool {
    let set = u64::from_str_radix(field(text, set), 16).unwrap_or(0);
    set & 1 << (sig - 1) != 0
}

impl SeenThread {
    fn parse(text: &str, sig: i32) -> Self {
        let has = |name| has_signal(text, name, sig);
        Self {
            state: field(text, "State:").bytes().next().unwrap_or(b'X'),
            pending: has("SigPnd:") || has("ShdPnd:"),
            takes: !has("SigBlk:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_what_its_status_says() {
        let text = "Name:\ta\nState:\tT (stopped)\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000040000\nSigBlk:\t0000000000080000\n";
        let thread = SeenThread::parse(text, libc::SIGSTOP);
        assert!(thread.state == b'T' && thread.pending && thread.takes);
        let thread = SeenThread::parse(text, libc::SIGTSTP);
        assert!(!thread.pending && !thread.takes);
    }
}
