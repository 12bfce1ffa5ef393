//! The interface of a policy, and the bounds of its answers.

/// Longest slice of any policy, in ticks.
pub const SLICE_MAX: u64 = 1 << 22;

/// Most guest instructions that a policy lets pass after a slice's last tick.
pub const STEPS_MAX: u32 = 1 << 12;

/// Decides which thread runs, and how long. One instance serves all threads that share a baton.
pub trait Policy: Send {
    /// Ticks until the next preemption: 1 to [`SLICE_MAX`].
    fn slice(&mut self) -> u64;

    /// Extra guest instructions after that tick, so that a switch can fall between any two
    /// instructions: 0 to [`STEPS_MAX`].
    fn steps(&mut self) -> u32;

    /// The thread that gets the baton next: an index into `waiting`, the threads that want it in
    /// the order in which they began to wait.
    ///
    /// # Panics
    /// When `waiting` is empty.
    fn choose(&mut self, waiting: &[u32]) -> usize;

    /// This thread gave way because it only spun: it waits for another one.
    fn spinning(&mut self, _thread: u32) {}
}
