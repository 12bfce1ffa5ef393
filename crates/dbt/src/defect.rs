//! Broken invariants of the translator. Must never be the answer to guest code that is only strange.

use relive_host::GuestAddr;

/// A broken invariant: translated code or the guest's is not as the translator has left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// A fault at an address of the code cache that has no mark.
    #[error("fault at {0:#x} in the code cache, where nothing can fault")]
    Fault(u64),
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
