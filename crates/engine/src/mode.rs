//! The modes of running a guest: recording, replaying, or neither.
//!
//! Signals, calls and the translator's stops do the same work in every mode; where a mode decides
//! the outcome they ask this trait. Implementations are in [`crate::modes`], one folder each.
//! A mode must never change the meaning of a call: it says where the outcome comes from, logs or
//! checks it, and orders the threads.

use relive_host::reading::Use;
use relive_host::signal::{KernelAction, Mask};
use relive_trace::{Kind, TapeId};
use serde::{Deserialize, Serialize};

use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::clone_args::CloneArgs;
use crate::call::reply::Reply;
use crate::closed_page::ClosedPage;
use crate::failure::{Failure, Result};
use crate::flow::Flow;
use crate::memory::content::{Content, Shown, Wanted};
use crate::siginfo::SigInfo;
use crate::tape::Tape;
use crate::task::Task;

/// The name of a mode, as start data and supervisors say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Name {
    /// Translate only.
    Run,
    /// Record, one thread at a time.
    Serial,
    /// Replay.
    Replay,
}

/// Properties of a mode that data structures are made for.
#[derive(Clone, Copy, Debug)]
pub struct Traits {
    /// Threads of a process run at the same time.
    pub together: bool,
    /// All threads of a process are contexts on one host thread.
    pub multiplexed: bool,
    /// The process is shut in, and its guest's calls do not reach the kernel.
    pub confined: bool,
    /// Content that a replay needs (images, mapped files, input) goes into a trace.
    pub keeps: bool,
    /// The routine that translated code calls for readings of clocks.
    pub clocks: Use,
}

/// The begin of a system call.
pub enum Begun {
    /// The kernel decides its outcome.
    Live,
    /// The tape has its outcome.
    Told(Answer),
    /// It does not take place now; the task goes on like this.
    Flow(Flow),
}

/// A reading of a clock that translated code left to the engine.
pub enum Reading {
    /// Its values, and whether an event was logged or consumed for it.
    Values([u64; 2], bool),
    /// The recording ended before it.
    Over,
}

/// A way to run guest processes.
pub trait Mode: Sync {
    /// Its properties.
    fn traits(&self) -> Traits;

    /// The state that the kernel keeps of the guest's threads.
    fn host(&self) -> &'static dyn Host;

    /// The order of changes to what processes share.
    fn order(&self) -> &dyn Order;

    // Calls: prepare, outcome, apply.

    /// The task stands at the `syscall` instruction of `call`.
    ///
    /// # Errors
    /// Divergence.
    fn begin_call(&self, task: &mut Task, call: &Call) -> Result<Begun>;

    /// The call has its result, and `task.log` its effects: logs it, or checks it and brings about
    /// what else the tape says of it.
    ///
    /// # Errors
    /// Divergence.
    fn end_call(
        &self,
        task: &mut Task,
        call: &Call,
        result: i64,
        told: Option<&Answer>,
    ) -> Result<()>;

    /// The engine does not come to the outcome that the call has: it cannot follow.
    fn diverged(&self, _task: &Task, expected: &str, actual: &str) -> Failure {
        Failure::internal(format!("{expected}: {actual}"))
    }

    /// A whole call that only answers, by its number, registers and number of arguments. `None`: it
    /// must take the long way, and nothing has been done.
    fn plain_call(&self, task: &mut Task, nr: u64, args: &[u64; 6], used: usize) -> Option<i64>;

    /// Enters the kernel by `enter` for a call that may sleep; other threads may run meanwhile.
    fn asleep(&self, task: &mut Task, enter: &mut dyn FnMut() -> i64) -> i64;

    /// Whether memory that a sleeping call uses may be seen by others: threads, or processes that map
    /// it too.
    fn others_see(&self, task: &Task) -> bool;

    /// Sends a signal: `send` makes the call.
    ///
    /// # Errors
    /// Something unsupported.
    fn send_signal(
        &self,
        task: &mut Task,
        call: &Call,
        sig: i32,
        send: &mut dyn FnMut(&mut Task) -> i64,
    ) -> Result<i64>;

    // Instructions.

    /// The values of a non-deterministic instruction, of which `values` asks the processor: the
    /// first `n` of them count.
    ///
    /// # Errors
    /// Divergence.
    fn instruction(
        &self,
        task: &mut Task,
        number: u8,
        n: u8,
        values: &mut dyn FnMut(&Task) -> [u64; 4],
    ) -> Result<[u64; 4]>;

    /// Whether the tape has the instruction, a reading of a clock, as an event of its own, as
    /// recordings before version 1.3 of the format do.
    ///
    /// # Errors
    /// A damaged trace.
    fn reads_by_event(&self, _task: &mut Task, _number: u8) -> Result<bool> {
        Ok(false)
    }

    /// A reading from `source` that translated code left to the engine.
    ///
    /// # Errors
    /// Divergence.
    fn reading(
        &self,
        task: &mut Task,
        source: u32,
        values: &mut dyn FnMut(&Task) -> [u64; 4],
    ) -> Result<Reading>;

    // Turns.

    /// Grants a new slice of ticks.
    fn begin_slice(&self, task: &mut Task);

    /// The budget is used up, by a signal or by the slice; the task is at a safe point.
    ///
    /// # Errors
    /// Divergence, something unsupported.
    fn end_budget(&self, task: &mut Task) -> Result<Flow>;

    /// The task has executed `pause`.
    fn pause(&self, task: &mut Task);

    /// sched_yield(2): `enter` makes the call.
    fn give_way(&self, task: &mut Task, enter: &mut dyn FnMut(&mut Task) -> i64) -> i64;

    // Signals.

    /// The present instruction raises a signal: the tape must say so.
    ///
    /// # Errors
    /// Divergence.
    fn raised(&self, task: &mut Task, info: &SigInfo) -> Result<()>;

    /// Whether a signal that kills one thread of several ends the thread at hand alone.
    ///
    /// # Errors
    /// Divergence.
    fn ends_thread_alone(&self, task: &mut Task) -> Result<bool>;

    /// Whether another recorded process has killed this one, and left it to itself to end.
    fn is_doomed(&self, task: &Task) -> bool;

    // Memory.

    /// The content of a map that is about to be made.
    ///
    /// # Errors
    /// It cannot be had.
    fn content(&self, wanted: Wanted<'_>) -> Result<Content>;

    /// A shared map of the file `file` (an identity) is about to show a further part of it, which is
    /// `shown` then if the trace says so.
    ///
    /// # Errors
    /// There is no memory for it.
    fn shows_file(&self, _file: u64, _shown: Option<&Shown>, _part: (u64, u64)) -> Result<()> {
        Ok(())
    }

    /// The engine is about to write guest memory.
    fn wrote(&self, _addr: u64, _len: u64) {}

    /// Before the task runs guest code: closes the page where the next event is a fault that the page's
    /// file raised.
    fn arm(&self, _task: &mut Task) -> Option<ClosedPage> {
        None
    }

    // Tasks and processes.

    /// A tape for a thread that is about to be made, or goes on in `ring` after exec.
    ///
    /// # Errors
    /// No room, a damaged trace.
    fn tape(&self, id: TapeId, pid: u32) -> Result<Tape>;

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

    /// A host thread begins to run its task: the first event of the task is `start`.
    fn thread_begins(&self, task: &mut Task, start: Kind<'_>);

    /// A host thread has nothing left to do.
    fn thread_ends(&self, task: &mut Task);

    /// The process of the task ends.
    fn process_ends(&self, task: &Task);

    /// What the mode of the next program's host goes on with; `alone`: the process has its memory for
    /// itself, which it has not as a vfork child.
    fn handed_on(&self, task: &Task, alone: bool) -> HandedOn;

    /// The process, which is no vfork child, is about to become the next program.
    fn executes(&self, task: &Task);

    /// The guest has been told that the child `pid` has ended.
    ///
    /// # Errors
    /// A process of the replay is gone.
    fn reaped(&self, _pid: u32) -> Result<()> {
        Ok(())
    }
}

/// The order of changes to objects that processes share and that a replay computes again.
pub trait Order: Sync {
    /// The caller is about to map the file `file` (an identity) shared; `writes`: it may write to it.
    /// Afterwards nobody else changes its content before the call is over.
    ///
    /// # Errors
    /// Something unsupported.
    fn acquire_file(
        &self,
        _task: &mut Task,
        _call: &Call,
        _file: u64,
        _writes: bool,
        _name: &str,
    ) -> Result<()> {
        Ok(())
    }

    /// A call has changed the guest's map: gives up files that it maps no more.
    fn release_files(&self, task: &Task) {
        task.machine().memory().space.take_dropped();
    }

    /// Makes a call by `make`, which may change files that are mapped.
    ///
    /// # Errors
    /// Something unsupported.
    fn change_files(
        &self,
        task: &mut Task,
        call: &Call,
        make: &mut dyn FnMut(&mut Task, &Call) -> Result<Reply>,
    ) -> Result<Reply> {
        make(task, call)
    }
}

/// What the mode of the next program's host goes on with after exec.
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
}

/// What the kernel keeps of a guest thread that the host's own thread stands for. In a replay there is
/// no such thread, and nothing to be kept.
pub trait Host: Sync {
    /// The guest's signal mask has changed.
    fn mask(&self, mask: Mask);
    /// The guest's action for a signal has changed.
    fn action(&self, sig: i32, action: &KernelAction);
    /// Wakes waiters of a futex word, as the kernel does at the end of a thread.
    fn wake(&self, at: u64);
    /// Stops the process by a stop signal with its default action.
    fn stop(&self, sig: i32);
    /// The thread is about to end, which others may see from now on.
    fn leaves(&self, task: &Task);
    /// The thread has a list of robust locks (set_robust_list(2)).
    fn robust_list(&self, head: u64, len: u64);
}
