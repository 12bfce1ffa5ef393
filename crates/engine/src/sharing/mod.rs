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

/// Whether a thread does not run any more: it is gone, or a zombie. In doubt it lives.
#[must_use]
pub fn dead_thread(tid: u32) -> bool {
    stat(tid).is_none_or(|(state, _)| matches!(state, b'Z' | b'X'))
}

/// Whether no thread of a process runs any more, even if nobody has waited for it yet.
#[must_use]
pub fn dead_process(pid: u32) -> bool {
    // A first thread that has ended is a zombie while the others run.
    stat(pid).is_none_or(|(state, threads)| matches!(state, b'Z' | b'X') && threads <= 1)
}

/// Whether a thread is stopped by a signal.
#[must_use]
pub fn stopped_thread(tid: u32) -> bool {
    stat(tid).is_some_and(|(state, _)| state == b'T')
}

/// State and number of threads from `/proc/ID/stat` (proc(5)); `None`: there is no such
/// thread. Where there is no `/proc`, it is taken to run. So it is in a replay, which may not look:
/// its supervisor notices when one of its processes dies, and ends the others.
fn stat(id: u32) -> Option<(u8, u32)> {
    if crate::modes::replay::is_confined() {
        return Some((b'?', 1));
    }
    let text = match std::fs::read(format!("/proc/{id}/stat")) {
        Ok(text) => text,
        Err(e) => {
            let gone = match e.raw_os_error() {
                Some(libc::ESRCH) => true,
                Some(libc::ENOENT) => std::path::Path::new("/proc/self/stat").exists(),
                // No descriptor free, no memory: says nothing of the thread.
                _ => false,
            };
            return (!gone).then_some((b'?', 1));
        }
    };
    // The name, in parentheses, may hold anything.
    let rest = text.rsplit(|&b| b == b')').next().unwrap_or_default();
    let mut fields = rest.split(|&b| b == b' ').filter(|f| !f.is_empty());
    let state = fields.next().and_then(|f| f.first()).copied();
    let threads = fields.nth(16).and_then(|f| std::str::from_utf8(f).ok());
    let threads = threads.and_then(|f| f.parse().ok()).unwrap_or(1);
    Some((state.unwrap_or(b'?'), threads))
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
            relive_host::sys::exit_group(0);
        }
        while !dead_process(child as u32) {
            std::thread::yield_now();
        }
        assert!(crate::shm::alive(child as u32), "a zombie still has its id");
        // SAFETY: waits for the child made above.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        assert!(dead_thread(child as u32));
    }
}
