//! Memory that recorded processes share: who shares, in which order they run, and how the
//! order is found again in replay.
//!
//! Processes that share memory which one of them can write are *members* of one group, whose
//! baton ([`group`]) lies in the memory that the supervisor shares with all processes: one
//! member runs at a time. A process joins at a safe point, when it forks with such memory, maps what
//! another process has mapped, or changes a file that another one maps; it leaves at exec. All
//! others run concurrently.
//! Nothing here may look at guest memory.

pub mod changes;
pub mod group;
pub mod lock;
pub mod objects;
pub mod processes;
pub mod users;

use std::str::FromStr;

/// Whether a thread does not run any more: it is gone, or a zombie. In doubt it lives.
#[must_use]
pub fn dead_thread(tid: u32) -> bool {
    stat(tid).is_none_or(|s| matches!(s.state, b'Z' | b'X'))
}

/// Whether no thread of a process runs any more, even if nobody has waited for it yet.
#[must_use]
pub fn dead_process(pid: u32) -> bool {
    // A first thread that has ended is a zombie while the others run.
    stat(pid).is_none_or(|s| matches!(s.state, b'Z' | b'X') && s.threads <= 1)
}

/// Whether a thread is stopped by a signal.
#[must_use]
pub fn stopped_thread(tid: u32) -> bool {
    stat(tid).is_some_and(|s| s.state == b'T')
}

/// The signal (0: none) that ended a process that nobody has waited for yet; `None` if it runs,
/// or somebody has waited for it: its parent says what became of it then.
#[must_use]
pub fn unwaited(pid: u32) -> Option<i32> {
    let stat = stat(pid)?;
    let status = stat.status.filter(|_| stat.state == b'Z')?;
    Some(status & 0x7f)
}

/// A part of `/proc/ID/stat` (proc(5)).
#[derive(Clone, Copy)]
struct Stat {
    /// One letter.
    state: u8,
    /// Of its process.
    threads: u32,
    /// How it has ended, as wait(2) gives it, if it has.
    status: Option<i32>,
}

impl Stat {
    /// Of a thread that is taken to run.
    const RUNS: Self = Self {
        state: b'?',
        threads: 1,
        status: None,
    };

    fn parse(text: &[u8]) -> Self {
        // The name, in parentheses, may hold anything. Behind it are the state and, as the last of
        // all, the status.
        let rest = text.rsplit(|&b| b == b')').next().unwrap_or_default();
        let mut fields = rest
            .split(|b| b.is_ascii_whitespace())
            .filter(|f| !f.is_empty());
        let state = fields.next().and_then(|f| f.first()).copied();
        let threads = fields.nth(16).and_then(number);
        let status = fields.next_back().and_then(number);
        Self {
            state: state.unwrap_or(Self::RUNS.state),
            threads: threads.unwrap_or(Self::RUNS.threads),
            status,
        }
    }
}

fn number<T: FromStr>(field: &[u8]) -> Option<T> {
    std::str::from_utf8(field).ok()?.parse().ok()
}

/// What `/proc` says of a thread; `None`: there is no such thread. Where there is no `/proc`, it is
/// taken to run. So it is in a replay, which may not look: its supervisor notices when one of its
/// processes dies, and ends the others.
fn stat(id: u32) -> Option<Stat> {
    if crate::confined::is_confined() {
        return Some(Stat::RUNS);
    }
    match std::fs::read(format!("/proc/{id}/stat")) {
        Ok(text) => Some(Stat::parse(&text)),
        Err(e) => {
            let gone = match e.raw_os_error() {
                Some(libc::ESRCH) => true,
                Some(libc::ENOENT) => std::path::Path::new("/proc/self/stat").exists(),
                // No descriptor free, no memory: says nothing of the thread.
                _ => false,
            };
            (!gone).then_some(Stat::RUNS)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_and_the_dead() {
        let me = std::process::id();
        assert!(!dead_process(me) && !dead_thread(relive_host::sys::gettid()));
        // SAFETY: the child ends at once, without touching anything.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends this process.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
        }
        while !dead_process(child as u32) {
            std::thread::yield_now();
        }
        assert_eq!(
            (unwaited(me), unwaited(child as u32)),
            (None, Some(libc::SIGKILL))
        );
        assert!(crate::shm::alive(child as u32), "a zombie still has its id");
        // SAFETY: waits for the child made above.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        assert!(dead_thread(child as u32));
        assert_eq!(unwaited(child as u32), None);
    }

    #[test]
    fn a_name_cannot_pass_for_the_fields_behind_it() {
        let fields = "Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 42 18 19 9\n";
        let stat = Stat::parse(format!("7 (R 1) R ( ) {fields}").as_bytes());
        assert_eq!((stat.state, stat.threads, stat.status), (b'Z', 42, Some(9)));
        let short = Stat::parse(b"7 (a) S");
        assert_eq!((short.state, short.threads, short.status), (b'S', 1, None));
    }
}
