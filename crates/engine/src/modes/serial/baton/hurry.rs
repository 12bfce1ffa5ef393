//! Slices are counted in ticks, and a tick may take milliseconds: a string instruction over megabytes, a loop of calls that map memory. A
//! thread that waits for a turn and sees the same one go on calls its holder out of translated code, and its slice ends. Must never
//! call a thread that has no turn: a signal would interrupt its sleep.

use relive_host::call_out::call_out;
use relive_host::sys;

use super::Baton;

/// Milliseconds that a turn may go on while others wait. The longest slices of plain code take as long.
const PATIENCE: u32 = 10;
/// Of many waiting threads those further behind look more seldom, up to so many times.
const MOST: u32 = 20;

/// The turn of which a waiting thread has seen the end not come yet.
#[derive(Default)]
pub(super) struct Hurry {
    turn: Option<u64>,
    /// So many wait before it.
    before: u32,
}

impl Hurry {
    /// This turn was going on when the thread began to wait.
    pub(super) fn since(turn: u64) -> Self {
        Self {
            turn: Some(turn),
            before: 0,
        }
    }

    /// Milliseconds up to the next look.
    pub(super) fn moment(&self) -> u32 {
        PATIENCE * (1 + self.before).min(MOST)
    }
}

impl Baton {
    /// The holder is about to execute a program: a call would be the new one's, which dies of it. Until its next turn nobody calls
    /// it, and one that is underway arrives before the return.
    pub fn is_not_called(&self) {
        self.lock().runs = None;
        // Signals that have been sent are delivered at the end of any system call.
        let _ = sys::gettid();
    }

    /// A thread has waited for a moment: if that was one turn of another thread's, it ends soon.
    pub(super) fn hurry(&self, thread: u32, hurry: &mut Hurry) {
        let s = self.lock();
        let before = s.queue.iter().position(|w| w.thread == thread);
        hurry.before = before.map_or(MOST, |before| before as u32);
        let lasts = hurry.turn.replace(s.turns) == Some(s.turns);
        if lasts && let Some((process, thread)) = s.runs.filter(|_| s.holder.is_some()) {
            // With the lock held: it keeps its turn until it has been called.
            call_out(process, thread);
        }
    }
}
