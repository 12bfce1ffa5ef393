//! The beginning and the end of tasks, processes and programs.

use relive_trace::{Kind, TapeId};
use serde::{Deserialize, Serialize};

use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::clone_args::CloneArgs;
use crate::call::reply::Reply;
use crate::elapsed::Elapsed;
use crate::failure::Result;
use crate::tape::Tape;
use crate::task::Task;

/// The state with which the mode of the next program's host goes on after exec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HandedOn {
    /// Seed of the schedule, and whether it is a chaotic one.
    pub seed: Option<(u64, bool)>,
    /// The ring of the thread's tape.
    pub ring: Option<u32>,
    /// Ticks of the last event on that tape.
    pub logged: u64,
    /// The ring of the schedule's tape.
    pub schedule: Option<u32>,
    /// In a recording whose threads run together: those of this process have turns.
    pub turns: bool,
    /// The past of the process, without what its ring counts.
    pub past: Elapsed,
}

/// How tasks and processes begin and end.
pub trait Lives {
    /// A tape for a thread that is about to be made, or goes on in `ring` after exec.
    ///
    /// # Errors
    /// No room, a damaged trace.
    fn tape(&self, id: TapeId, handed_on: &HandedOn) -> Result<Tape>;

    /// Makes a thread of the process.
    ///
    /// # Errors
    /// Divergence.
    fn clone_thread(
        &self,
        task: &mut Task,
        args: &CloneArgs,
        told: Option<&Answer>,
    ) -> Result<Reply>;

    /// Makes a process with a copy of the memory.
    ///
    /// # Errors
    /// Divergence.
    fn fork(&self, task: &mut Task, args: &CloneArgs, told: Option<&Answer>) -> Result<Reply>;

    /// Makes a process that uses the memory of its parent until it executes or ends.
    ///
    /// # Errors
    /// Divergence.
    fn vfork(
        &self,
        task: &mut Task,
        call: &Call,
        args: &CloneArgs,
        told: Option<&Answer>,
    ) -> Result<Reply>;

    /// Makes a process that uses the memory of its parent beside it. `None`: the mode makes none.
    ///
    /// # Errors
    /// Divergence.
    fn lodger(
        &self,
        _task: &mut Task,
        _args: &CloneArgs,
        _told: Option<&Answer>,
    ) -> Result<Option<Reply>> {
        Ok(None)
    }

    /// The task is about to begin a program.
    fn program_begins(&self, _task: &Task) {}

    /// A host thread begins to run its task: the first event of the task is `start`.
    ///
    /// # Errors
    /// The event is lost.
    fn thread_begins(&self, task: &mut Task, start: Kind<'_>) -> Result<()>;

    /// A host thread has nothing left to do.
    fn thread_ends(&self, task: &mut Task);

    /// The process of the task ends.
    fn process_ends(&self, task: &Task);

    /// The state with which the mode of the next program's host goes on; `alone`: the process has its
    /// memory to itself, as it has unless it is a vfork child.
    ///
    /// # Errors
    /// A note on the tape is lost.
    fn handed_on(&self, task: &mut Task, alone: bool) -> Result<HandedOn>;

    /// The process, which is no vfork child, is about to become the next program.
    fn executes(&self, task: &Task);

    /// The guest has been told that the child `pid` has ended.
    ///
    /// # Errors
    /// A process of the replay has died.
    fn reaped(&self, _pid: u32) -> Result<()> {
        Ok(())
    }
}
