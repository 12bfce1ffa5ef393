//! A client's orders, and their outcomes.

use gdbstub::common::Tid;
use gdbstub::stub::MultiThreadStopReason;

/// A stop in the protocol's terms.
pub type Reason = MultiThreadStopReason<u64>;

/// An order to go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// All threads, forwards.
    #[default]
    Continue,
    /// One instruction of a thread.
    Step(Tid),
    /// A thread, as long as its pc is in a range.
    Range(Tid, u64, u64),
    /// Backwards.
    Back,
    /// Back over one instruction of a thread.
    StepBack(Tid),
}

impl Order {
    /// Whether one instruction obeys it, be it only a part of what is asked for.
    pub fn is_step(self) -> bool {
        matches!(self, Self::Step(_) | Self::Range(..))
    }

    /// Whether it leads backwards.
    pub fn is_back(self) -> bool {
        matches!(self, Self::Back | Self::StepBack(_))
    }
}
