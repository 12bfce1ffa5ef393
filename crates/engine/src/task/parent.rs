//! The parent of a vfork child, put aside while the child runs in its task.

use std::sync::Arc;

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
}
