//! The place where a branch arrives at a fragment, while code for it is emitted. Guest state is
//! complete there except for rcx, which may be spilled.

use crate::emit::Asm;
use crate::exits::Exits;
use crate::flags::DeadFlags;

/// An arrival under construction.
pub(crate) struct Arrival<'a> {
    pub(crate) asm: &'a mut Asm,
    pub(crate) exits: &'a mut Exits,
    /// The fragment.
    pub(crate) frag: u32,
    /// The branch's target.
    pub(crate) pc: u64,
    /// The round of an unrolled loop that begins here: 0 at a fragment's entries.
    pub(crate) round: usize,
    /// Flags that may be lost here.
    pub(crate) dead: DeadFlags,
    /// Whether rcx is spilled and free to use.
    pub(crate) spilled: bool,
}

impl Arrival<'_> {
    /// Spills rcx unless it is spilled.
    pub(crate) fn take_rcx(&mut self) {
        if !std::mem::replace(&mut self.spilled, true) {
            self.asm.spill_rcx();
        }
    }

    /// Restores the guest's rcx, if it is spilled.
    pub(crate) fn restore_rcx(&mut self) {
        if std::mem::take(&mut self.spilled) {
            self.asm.restore_rcx();
        }
    }
}
