//! Host threads that have nothing left to do but to leave the C library, which has locks of its own. A
//! raw fork must wait for them; the C library's own fork need not. It must never read their memory: it
//! may be gone.

use relive_host::sys;

/// Threads that have ended a moment ago.
#[derive(Default)]
pub struct EndedThreads(Vec<Leaving>);

/// One of them: its id, and the word that the kernel clears when it has left all memory.
struct Leaving {
    tid: u32,
    word: u64,
}

impl EndedThreads {
    /// The calling thread is about to leave.
    pub fn note(&mut self) {
        self.0.retain(Leaving::is_there);
        let mut word = 0u64;
        // SAFETY: fills the word.
        let known = unsafe { libc::prctl(libc::PR_GET_TID_ADDRESS, &raw mut word) } == 0;
        if known && word != 0 {
            let tid = sys::gettid();
            self.0.push(Leaving { tid, word });
        }
    }

    /// Waits until they are gone.
    pub fn wait(self) {
        self.0.iter().for_each(Leaving::wait);
    }
}

impl Leaving {
    fn is_there(&self) -> bool {
        // SAFETY: asks, and sends nothing.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.tid, 0) == 0 }
    }

    /// The kernel compares, and wakes those who wait for the word as it clears it. Where the word is
    /// something else, or nothing, the thread has left.
    fn wait(&self) {
        let args = [self.word, libc::FUTEX_WAIT as u64, self.tid.into(), 0, 0, 0];
        // SAFETY: only asks the kernel to look at the word.
        let asked = || unsafe { sys::syscall(libc::SYS_futex as u64, args) };
        while asked() == -(libc::EINTR as isize) {}
    }
}
