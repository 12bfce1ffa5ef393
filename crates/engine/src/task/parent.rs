//! The parent of a vfork child, put aside while the child runs in its task.

use std::sync::Arc;

use super::state::TaskState;
use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::clone_args::CloneArgs;
use crate::process::Process;
use crate::tape::Tape;

/// What the parent goes on with.
pub struct Parent {
    pub(crate) state: TaskState,
    pub(crate) process: Arc<Process>,
    pub(crate) tape: Tape,
    /// Which tables the child has in common with it.
    pub(crate) shares: CloneArgs,
    /// It is itself such a child: what its own parent goes on with.
    pub(crate) outer: Option<Box<Parent>>,
    /// Replay: what the tape says of the parent's call.
    pub(crate) answer: Option<(Call, Answer)>,
}

impl Parent {
    /// Its kernel thread id.
    pub fn tid(&self) -> u32 {
        self.state.tid
    }
}
