//! Memory that the threads of a process share, line by line: who may access which line, and the order in which lines
//! change hands. After the coherence protocol that the Flight Data Recorder listens to (Xu, Bodik and Hill, ISCA 2003,
//! section 4): a line is read by many or written by one; where it goes from one thread to another, the second one's
//! access comes behind all that the first one has done with it.
//!
//! | line | of a thread | others | it changes hands |
//! | --- | --- | --- | --- |
//! | unowned | nothing | nothing | to whoever asks |
//! | written | reads and writes | nothing | as a read one for a reader, as a whole for a writer |
//! | read | reads | may read | for a writer, from all readers |
//!
//! A thread that has a line gives it up at a *mark*: a place of its own that its tape names. A thread that is at rest
//! stands at one, and others take its lines without it; one that runs is asked, and answers at the next look of its
//! code at its permissions. A thread that asks is at rest meanwhile, but keeps what it has got for the access at hand
//! (*pinned*); lines are asked for in one order, so that none waits for one that waits for it.
//!
//! Must never know a task, or wait with the directory's lock held.

#[cfg(test)]
mod all_orders;
mod blocks;
mod directory;
mod hand_over;
mod holder_state;
mod line_holder;
mod line_ranges;
mod page_holders;
mod writers;

pub use directory::{ClaimStep, Directory};
pub use line_holder::{Holder, Mark};
pub use line_ranges::{LineRange, MemoryUse, lines_of};

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

/// The lines of a process.
#[derive(Default)]
pub struct Lines {
    directory: Mutex<Option<Directory>>,
    /// Whether permissions are asked for: the process has several threads that run together.
    active: AtomicBool,
}

impl Lines {
    /// Whether permissions are asked for.
    pub fn are_asked_for(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    /// They are from now on, or are not any more.
    pub fn ask_for_them(&self, active: bool) {
        self.active.store(active, Ordering::Release);
    }

    /// Looks at the directory, or changes it.
    ///
    /// # Panics
    /// There is none: the process has never had several threads.
    pub fn with<R>(&self, f: impl FnOnce(&mut Directory) -> R) -> R {
        f(self.lock().as_mut().expect("permissions are asked for"))
    }

    /// The same; makes the directory first if there is none.
    ///
    /// # Errors
    /// The kernel's error number: no memory.
    pub fn make(&self) -> Result<(), i32> {
        let mut there = self.lock();
        if there.is_none() {
            *there = Some(Directory::new()?);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Directory>> {
        self.directory
            .lock()
            .expect("no thread panics: panics abort")
    }
}
