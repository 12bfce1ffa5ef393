//! Waiting for the baton. Slices are counted in ticks, and a tick may take milliseconds: a string instruction over megabytes, a loop of calls that map
//! memory. A thread that waits and sees the same turn go on calls its holder out of translated code, and the slice ends. Must never
//! call a thread that has no turn: a signal would interrupt its sleep.

use std::sync::atomic::{AtomicU32, Ordering};

use relive_host::call_out::call_out;
use relive_host::sys;

use super::Baton;
use super::hurry::Hurry;
use crate::failure::Result;
use crate::task::Task;

/// Most milliseconds between two looks for those that may be gone.
const MOMENT: u32 = 50;

impl Baton {
    /// Waits until the baton has been handed over.
    pub(super) fn wait(&self, go: &AtomicU32, task: &Task, mut hurry: Hurry) -> Result<()> {
        while go.load(Ordering::Acquire) == 0 {
            let looks = self.lodged.load(Ordering::Relaxed) || task.vforked.is_some();
            let moment = match looks {
                true => hurry.moment().min(MOMENT),
                false => hurry.moment(),
            };
            sys::futex_wait(go, 0, Some(moment));
            if go.load(Ordering::Acquire) != 0 {
                break;
            }
            if looks {
                self.look_around(task)?;
            }
            self.hurry(task.slot, &mut hurry);
        }
        Ok(())
    }

    /// A thread has waited for a moment: if that was one turn of another thread's, it ends soon.
    fn hurry(&self, thread: u32, hurry: &mut Hurry) {
        let mut s = self.lock();
        let before = s.queue.iter().position(|w| w.thread == thread);
        let lasts = hurry.looks(s.turns, before);
        if lasts && let Some((process, thread)) = s.runs.filter(|_| s.holder.is_some()) {
            // With the lock held: it keeps its turn until it has been called.
            s.called = true;
            call_out(process, thread);
        }
    }
}
