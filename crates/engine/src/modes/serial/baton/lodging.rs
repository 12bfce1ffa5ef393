//! The baton and the process that lodges in the memory of the recorded one: it has turns as a thread has, but does not
//! die with the others, nor they with it. So those that wait look now and then whether it is still there. Must never
//! hand the baton to the dead.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{Baton, BatonState};
use crate::failure::{Failure, Result};
use crate::ids;
use crate::modes::live::lodger::Lodger;
use crate::ptrace::pokes;
use crate::sharing::dead_process;
use crate::task::Task;

impl Baton {
    /// Whether another lodger has room: there is one at a time.
    pub fn has_room(&self) -> bool {
        self.lock().lodger.is_none()
    }

    /// Whether this is the kernel's id of a lodger that has more turns.
    pub fn is_lodger(&self, pid: u32) -> bool {
        self.lodged.load(Ordering::Relaxed)
            && self.lock().lodger.as_ref().is_some_and(|l| l.pid == pid)
    }

    /// The holder has made a lodger.
    pub fn lodges(&self, lodger: Lodger) {
        self.lodged.store(true, Ordering::Relaxed);
        self.lock().lodger = Some(lodger);
    }

    /// The lodger, which has the baton, has had its last turn.
    pub fn lodger_leaves(&self) {
        self.lodged.store(false, Ordering::Relaxed);
        if let Some(lodger) = &mut self.lock().lodger {
            lodger.left = true;
        }
    }

    /// The holder ends the lodger, which goes with it or with its program, or is gone already. Whether there was one
    /// that would have had more turns.
    pub fn end_lodger(&self, which: impl Fn(&Lodger) -> bool) -> bool {
        let mut s = self.lock();
        let Some(lodger) = s.lodger.take_if(|l| which(l)) else {
            return false;
        };
        self.lodged.store(false, Ordering::Relaxed);
        // It has no lock of this module while it dies.
        lodger.end();
        s.dequeue(lodger.slot, &self.waiting);
        !lodger.left
    }

    /// The kernel's id of the process that the address space belongs to, which may be the caller's parent.
    pub(super) fn owner(&self) -> u32 {
        let s = self.lock();
        let lodger = s.lodger.as_ref().filter(|l| l.pid == std::process::id());
        lodger.map_or_else(ids::process, |l| l.parent)
    }

    /// In a forked child, which has none.
    pub(super) fn forget_lodger(&self, s: &mut BatonState) {
        self.lodged.store(false, Ordering::Relaxed);
        if let Some(lodger) = s.lodger.take() {
            lodger.forget();
        }
    }

    /// Whether the one that the task waits for is gone: the lodger, which was killed while it had the baton, the
    /// process of the lodger, or that of a vfork child, which has the threads that may have the baton.
    pub(super) fn look_around(&self, task: &Task) -> Result<()> {
        let mut s = self.lock();
        if task
            .vforked
            .as_ref()
            .is_some_and(|p| dead_process(p.keeper))
        {
            s.dequeue(task.slot, &self.waiting);
            return Err(Failure::unsupported(
                "a process was killed while its child by vfork(2) was in its memory and another of its threads had the turn: the child gets none any more",
            ));
        }
        let Some(lodger) = &s.lodger else {
            return Ok(());
        };
        if task.lodges && ids::parent() != lodger.parent {
            // Its turn never comes.
            pokes::kill(std::process::id());
        }
        if s.holder != Some(lodger.slot) || lodger.lives() {
            return Ok(());
        }
        // The place to wake this thread by is about to go.
        s.dequeue(task.slot, &self.waiting);
        Err(Failure::unsupported(
            "a process in the memory of its parent was killed while it ran: its last writes are on no tape",
        ))
    }
}

impl BatonState {
    /// A lodger that was killed while it waited gets no turn.
    pub(super) fn forget_dead(&mut self, waiting: &AtomicU32) {
        let dead = self.lodger.as_ref().filter(|l| !l.lives());
        if let Some(slot) = dead.map(|l| l.slot) {
            self.dequeue(slot, waiting);
        }
    }

    /// The thread waits no more.
    fn dequeue(&mut self, thread: u32, waiting: &AtomicU32) {
        let there = self.queue.len();
        self.queue.retain(|w| w.thread != thread);
        waiting.fetch_sub((there - self.queue.len()) as u32, Ordering::Relaxed);
    }
}
