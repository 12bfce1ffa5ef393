//! Broken invariants of the translator. Must never be the answer to guest code that is only strange.

use relive_host::GuestAddr;

/// A broken invariant: translated code or the guest's is not as the translator has left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// A fault at an address of the code cache that has no mark.
    #[error(
        "fault at {at:#x} in the code cache, where nothing can fault: trap {trap}, access to {access:#x}, nearest code is that of {near}"
    )]
    Fault {
        /// Where it is.
        at: u64,
        /// The number of the processor's trap.
        trap: u64,
        /// The address of the access, if it was one.
        access: u64,
        /// The fragment that begins before it.
        near: GuestAddr,
    },
    /// Translated code has left by an exit that is not there.
    #[error("there is no exit {0}")]
    Exit(u32),
    /// Translated code has left by the record of a branch.
    #[error("exit {0} is the record of a branch, and no way out")]
    NoWayOut(u32),
    /// Translated code has named a branch that is not there.
    #[error("there is no branch {0}")]
    Branch(u32),
    /// The guest's code has changed, and its translation was not forgotten.
    #[error("the {0} at {1} is none any more")]
    Changed(&'static str, GuestAddr),
    /// The memory operand of an instruction is of no known form.
    #[error("no address for the operand of {0}")]
    Operand(GuestAddr),
    /// Memory that an instruction has just stored to cannot be accessed.
    #[error("stored at {at} but cannot {access} {bad}")]
    Stored {
        /// Where it has stored.
        at: GuestAddr,
        /// The access.
        access: &'static str,
        /// The first address without it.
        bad: GuestAddr,
    },
}
