//! An object of the engine that threads acquire one after the other, with the operation that had it last: its
//! version. A thread waits for it at rest, so that the owner may ask for quiet.

use std::sync::atomic::{AtomicU32, Ordering};

use relive_host::sys;

use crate::failure::Result;
use crate::task::Task;

mod lock {
    pub const FREE: u32 = 0;
    pub const HELD: u32 = 1;
    /// Held, and another thread sleeps until it is free.
    pub const WANTED: u32 = 2;
}

/// An object and its version.
#[derive(Default)]
pub struct Object {
    lock: AtomicU32,
    /// The thread that had it last, by its index plus 1 (0: none), and the number of its operation.
    /// Only the owner uses them.
    last: std::sync::Mutex<(u32, u64)>,
    owner: AtomicU32,
}

impl Object {
    /// Acquires it for the task's next operation. Thread and operation that this one follows, if they
    /// are another thread's.
    ///
    /// # Errors
    /// The moment of the wait is lost.
    pub fn acquire(&self, task: &mut Task) -> Result<Option<(u32, u64)>> {
        let lock = &self.lock;
        let taken =
            |from, to| lock.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed);
        if taken(lock::FREE, lock::HELD).is_err() {
            // The process may end before it is this thread's turn.
            task.arrived()?;
            while lock.swap(lock::WANTED, Ordering::Acquire) != lock::FREE {
                task.while_away(&mut || {
                    sys::futex_wait(lock, lock::WANTED, None);
                    0
                });
            }
        }
        task.ctx.ops += 1;
        let (me, op) = (task.slot + 1, task.ctx.ops);
        self.owner.store(me, Ordering::Relaxed);
        let mut last = self.last.lock().expect("no thread panics: panics abort");
        let (thread, before) = std::mem::replace(&mut *last, (me, op));
        Ok((thread != 0 && thread != me).then(|| (thread - 1, before)))
    }

    /// Gives it up, if the task has it.
    pub fn release(&self, task: &Task) {
        if self.owner.load(Ordering::Relaxed) != task.slot + 1 {
            return;
        }
        self.owner.store(0, Ordering::Relaxed);
        if self.lock.swap(lock::FREE, Ordering::Release) == lock::WANTED {
            sys::futex_wake(&self.lock, 1);
        }
    }

    /// In a forked child: no thread has had it.
    pub fn forget(&self) {
        self.lock.store(lock::FREE, Ordering::Relaxed);
        self.owner.store(0, Ordering::Relaxed);
        *self.last.lock().expect("no thread panics: panics abort") = (0, 0);
    }
}
