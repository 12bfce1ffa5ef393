//! Host threads that only have to leave the C library, which has locks of its own. A raw fork must wait
//! for them; the C library's own fork need not. It must never read their memory: it may be unmapped.

use relive_host::sys;
use rustix::thread::get_clear_child_tid_address;

/// Threads that have just ended.
#[derive(Default)]
pub struct EndedThreads(Vec<Leaving>);

/// Such a thread: its id, and the word that the kernel clears when the thread uses no memory any more.
struct Leaving {
    tid: u32,
    word: u64,
}

impl EndedThreads {
    /// Notes that the calling thread is about to leave.
    pub fn note(&mut self) {
        self.0.retain(Leaving::is_there);
        if let Ok(Some(word)) = get_clear_child_tid_address() {
            let (tid, word) = (sys::gettid(), word.as_ptr() as u64);
            self.0.push(Leaving { tid, word });
        }
    }

    /// Waits until all of them have left.
    pub fn wait(self) {
        self.0.iter().for_each(Leaving::wait);
    }
}

impl Leaving {
    fn is_there(&self) -> bool {
        sys::has_thread(std::process::id(), self.tid)
    }

    /// Waits in the kernel, which wakes the waiters as it clears the word. If the word has another value,
    /// or is unmapped, the thread has left.
    fn wait(&self) {
        let args = [self.word, libc::FUTEX_WAIT as u64, self.tid.into(), 0, 0, 0];
        // SAFETY: the kernel only reads the word.
        let asked = || unsafe { sys::syscall(libc::SYS_futex as u64, args) };
        while asked() == -(libc::EINTR as isize) {}
    }
}
