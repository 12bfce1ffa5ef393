//! The kernel's state of guest threads, as far as the host's own threads have it.

use relive_host::signal::{KernelAction, Mask};

use crate::registry::Registry;

/// The kernel's state of a guest thread that a host thread stands for. In a replay there is no such
/// thread, and no such state.
pub trait Host: Sync {
    /// The guest's signal mask has changed.
    fn mask(&self, mask: Mask);
    /// The guest's action for a signal has changed.
    fn action(&self, sig: i32, action: &KernelAction);
    /// The host's handler takes all signals from now on, or only those that the guest's actions name, as the
    /// actions are told again.
    fn take_all(&self, _all: bool) {}
    /// Wakes waiters of a futex word, as the kernel does at the end of a thread.
    fn wake(&self, at: u64);
    /// Stops the process by a stop signal with its default action.
    fn stop(&self, sig: i32);
    /// The thread is about to end, and other threads may see its end from now on. Says whether it is the last.
    fn leaves(&self, registry: &Registry) -> bool;
    /// The thread has a list of robust locks (set_robust_list(2)).
    fn robust_list(&self, head: u64, len: u64);
}
