//! The modes of running a guest: recording, replaying, or neither.
//!
//! Signals, calls and the translator's stops do the same work in every mode; where a mode decides
//! the outcome they ask this trait. Implementations are in [`crate::modes`], one folder each.
//! A mode must never change the meaning of a call: it is the source of the outcome, logs or checks it,
//! and orders the threads.
//!
//! | the engine asks | when |
//! |---|---|
//! | [`Outcomes`] | a task stands at a call, or at an instruction, whose outcome its own state does not decide |
//! | [`Turns`] | its slice begins or is used up, it waits, it sleeps in a call |
//! | [`Signals`] | a signal is raised, sent, or kills |
//! | [`Contents`] | a map is about to be made, or memory to be written |
//! | [`Lives`] | a task, a process or a program begins or ends |

mod contents;
mod host;
mod lives;
mod order;
mod outcomes;
mod signals;
mod turns;

pub use contents::Contents;
pub use host::Host;
pub use lives::{HandedOn, Lives};
pub use order::{FileUse, Order, PrecedingOp};
pub use outcomes::{Begun, Outcomes, Reading};
pub use signals::Signals;
pub use turns::Turns;

use relive_dbt::{AtPause, Ordered};
use relive_host::reading::Use;
use serde::{Deserialize, Serialize};

/// The name of a mode, for start data and supervisors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Name {
    /// Translate only.
    Run,
    /// Record, one thread at a time.
    Serial,
    /// Record, threads at the same time.
    Sketch,
    /// The same, with all accesses to memory ordered.
    Coherence,
    /// Replay.
    Replay,
    /// Replay of a sketch, threads at the same time.
    Parallel,
}

impl Name {
    /// Whether it records.
    #[must_use]
    pub fn records(self) -> bool {
        matches!(self, Self::Serial | Self::Sketch | Self::Coherence)
    }
}

/// Properties of a mode, on which data structures of the engine depend.
#[derive(Clone, Copy, Debug)]
pub struct ModeTraits {
    /// Threads of a process run at the same time.
    pub together: bool,
    /// All threads of a process are contexts on one host thread.
    pub multiplexed: bool,
    /// The host process is confined, and its guest's calls do not reach the kernel.
    pub confined: bool,
    /// Its guests may trace each other by ptrace(2).
    pub traces: bool,
    /// It may want to see single accesses of a thread ([`Turns::samples`]).
    pub samples: bool,
    /// It makes checkpoints ([`Turns::checkpoint`]).
    pub checkpoints: bool,
    /// Content that a replay needs (images, mapped files, input) goes into a trace.
    pub keeps: bool,
    /// The routine that translated code calls for readings of clocks.
    pub clocks: Use,
    /// What a thread does at a `pause`: where threads take turns, [`Turns::pause`].
    pub at_pause: AtPause,
    /// The treatment of instructions that order threads: atomic ones.
    pub operations: Ordered,
}

/// A way to run guest processes.
pub trait Mode: Outcomes + Turns + Signals + Contents + Lives + Sync {
    /// Its properties.
    fn traits(&self) -> ModeTraits;

    /// The state that the kernel keeps of the guest's threads.
    fn host(&self) -> &'static dyn Host;

    /// The order of changes to objects that processes share.
    fn order(&self) -> &dyn Order;
}
