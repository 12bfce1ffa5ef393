//! An object of the engine that threads acquire one after the other, and the operation that had it last: its
//! version. A thread waits for it at rest, so that the owner may ask for quiet.

use std::sync::Mutex;
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

/// An operation: the thread's index plus 1 (0: none), and its number.
type VersionedOp = (u32, u64);

/// The operation of an object that came last, and the one before it.
#[derive(Default)]
pub struct Version(Mutex<[VersionedOp; 2]>);

impl Version {
    /// The task's present operation is the next one. Thread and operation that it follows, if they are another
    /// thread's.
    pub fn next(&self, task: &Task) -> Option<(u32, u64)> {
        let me = task.slot + 1;
        let mut last = self.0.lock().expect("no thread panics: panics abort");
        let before = last[0];
        *last = [(me, task.ctx.ops), before];
        let (thread, op) = before;
        (thread != 0 && thread != me).then(|| (thread - 1, op))
    }

    /// The last operation has not been made.
    fn withdraw(&self) {
        let mut last = self.0.lock().expect("no thread panics: panics abort");
        *last = [last[1]; 2];
    }

    /// In a forked child: there was none.
    pub fn forget(&self) {
        *self.0.lock().expect("no thread panics: panics abort") = Default::default();
    }
}

/// An object and its version.
#[derive(Default)]
pub struct Object {
    lock: AtomicU32,
    version: Version,
    /// The thread that has it, by its index plus 1. Only it reads its own.
    owner: AtomicU32,
}

impl Object {
    /// Acquires it for the task's next operation; `rests` is called each time before the task waits. Thread and operation that this one follows, if they
    /// are another thread's.
    ///
    /// # Errors
    /// The moment of the wait is lost.
    pub fn acquire(
        &self,
        task: &mut Task,
        rests: &dyn Fn(&mut Task) -> Result<()>,
    ) -> Result<Option<(u32, u64)>> {
        let lock = &self.lock;
        let taken =
            |from, to| lock.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed);
        if taken(lock::FREE, lock::HELD).is_err() {
            // The process may end before it is this thread's turn.
            task.arrived()?;
            while lock.swap(lock::WANTED, Ordering::Acquire) != lock::FREE {
                rests(task)?;
                task.while_away(&mut || {
                    sys::futex_wait(lock, lock::WANTED, None);
                    0
                });
            }
        }
        task.ctx.ops += 1;
        self.owner.store(task.slot + 1, Ordering::Relaxed);
        Ok(self.version.next(task))
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

    /// Gives it up, if the task has it, as if it had not acquired it.
    pub fn withdraw(&self, task: &mut Task) -> bool {
        let has = self.owner.load(Ordering::Relaxed) == task.slot + 1;
        if has {
            self.version.withdraw();
            task.ctx.ops -= 1;
            self.release(task);
        }
        has
    }

    /// In a forked child: no thread has had it.
    pub fn forget(&self) {
        self.lock.store(lock::FREE, Ordering::Relaxed);
        self.owner.store(0, Ordering::Relaxed);
        self.version.forget();
    }
}
