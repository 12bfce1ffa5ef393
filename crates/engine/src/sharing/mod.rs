//! Memory that recorded processes share: the processes that share it, the order in which they run,
//! and how replay finds that order again.
//!
//! Processes that share memory which one of them can write are *members* of one group, whose
//! baton ([`group`]) lies in the memory that the supervisor shares with all processes: one
//! member runs at a time. A process joins at a safe point, when it forks with such memory, maps an
//! object that another process has mapped, or changes a file that another one maps; it leaves at
//! exec. All others run concurrently.
//! Nothing here may look at guest memory.

pub mod changes;
pub mod group;
pub mod lock;
pub mod objects;
pub mod processes;
pub mod stopping;
pub mod users;
pub mod visit;

use crate::proc_stat::stat;

/// Whether a thread does not run any more: it is gone, or a zombie. In doubt it lives.
#[must_use]
pub fn dead_thread(tid: u32) -> bool {
    stat(tid).is_none_or(|s| matches!(s.state, b'Z' | b'X'))
}

/// Whether no thread of a process runs any more, even if it has not been waited for yet.
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

/// The signal (0: none) that ended a process that has not been waited for yet; `None` if it runs,
/// or has been waited for: its parent reports its end then.
#[must_use]
pub fn unwaited(pid: u32) -> Option<i32> {
    let stat = stat(pid)?;
    let status = stat.status.filter(|_| stat.state == b'Z')?;
    Some(status & 0x7f)
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
}
