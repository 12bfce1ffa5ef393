//! Edges, and their number in a thread's room for them.

/// Most edges that a thread logs before the engine takes them.
pub const EDGES: usize = 1024;
/// With more than this many the thread leaves translated code at its next tick.
pub(super) const MANY_EDGES: usize = EDGES / 2;

/// An operation of this thread that is behind another thread's.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edge {
    /// Ordinal of this thread's operation.
    pub at: u64,
    /// Ticks of this thread before it.
    pub ticks: u64,
    /// Ordinal of the other thread's operation; or that of one before it, possibly 0, if it has
    /// faulted.
    pub from_op: u64,
    /// The other thread, by [`Context::order_id`].
    pub from: u32,
    /// Padding.
    pub pad: u32,
}
