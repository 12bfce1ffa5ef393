//! The parent of a vfork child, put aside while the child runs in its task.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::plain_task::TaskState;
use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::clone_args::CloneArgs;
use crate::process::Process;
use crate::tape::Tape;

/// The state with which the parent goes on.
pub struct Parent {
    pub(crate) state: TaskState,
    /// The supervisor's id of its thread.
    pub(crate) keeper: u32,
    pub(crate) process: Arc<Process>,
    pub(crate) tape: Tape,
    /// The tables that the child shares with it.
    pub(crate) shares: CloneArgs,
    /// Its own parent, if it is a vfork child itself.
    pub(crate) outer: Option<Box<Parent>>,
    /// Replay: the parent's call, and its recorded outcome.
    pub(crate) answer: Option<(Call, Answer)>,
    /// Live: the tick at which the child becomes another program, plus 1; 0: it does not.
    pub(crate) becoming: AtomicU64,
}

impl Parent {
    /// The child becomes another program, at this tick, or could not (`None`). From now on it may be gone from this memory, and
    /// even killed, before that program has said a word.
    pub fn becomes(&self, tick: Option<u64>) {
        self.becoming
            .store(tick.map_or(0, |tick| tick + 1), Ordering::SeqCst);
    }

    /// The tick at which the child, which has left, was becoming another program.
    pub fn became(&self) -> Option<u64> {
        self.becoming.load(Ordering::SeqCst).checked_sub(1)
    }
}
