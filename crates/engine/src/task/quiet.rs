//! What a guest thread says of itself where threads run together, so that one of them can bring the
//! others to rest ([`crate::registry`]). In other modes none of this does anything.

use relive_host::cpu;

use super::Task;
use crate::memory::Memory;
use crate::registry::{NOT_QUIET, Quiet};

impl Task {
    /// Brings all other threads to rest, and keeps them there until the answer is dropped; `None`:
    /// they do not run together. The caller holds no lock.
    pub fn quiesce(&self) -> Option<Quiet<'static>> {
        // The member is the thread's as long as it runs.
        let me = self.member.as_ref()?;
        Some(self.machine().registry.quiesce(me))
    }

    /// Whether nobody else runs: the others are at rest, or never run beside this one.
    #[must_use]
    pub fn is_undisturbed(&self) -> bool {
        let registry = &self.machine().registry;
        let quiet = |me: &_| registry.single() || registry.is_quiet_for(me);
        self.member.as_deref().is_none_or(quiet)
    }

    /// Whether the guest's map may change in a range now; if not, all others must be at rest.
    ///
    /// # Errors
    /// The errno that says so.
    pub fn may_change(&self, memory: &Memory, start: u64, end: u64) -> Result<(), i32> {
        match self.is_undisturbed() || start >= end || !memory.needs_quiet(start, end) {
            true => Ok(()),
            false => Err(NOT_QUIET),
        }
    }

    /// Makes a call by `enter` during which the kernel writes nothing of the guest's.
    pub fn while_away(&mut self, enter: &mut dyn FnMut() -> i64) -> i64 {
        let Some(me) = &self.member else {
            return enter();
        };
        let registry = &self.machine().registry;
        loop {
            registry.leave_for_kernel(me);
            let result = enter();
            registry.come_back(me);
            let called_out = std::mem::take(&mut self.ctx.wanted) != 0;
            // It came too late, the thread had left translated code by itself: no signal of the
            // guest's, and the call has not done anything yet.
            if !called_out || result != -i64::from(libc::EINTR) || self.ctx.pending != 0 {
                return result;
            }
        }
    }

    /// From here on the thread may know places in the code cache.
    pub(super) fn enter_guest(&mut self) {
        if let Some(me) = &self.member {
            self.ctx.wanted = 0;
            if self.machine().registry.enter_guest(me) {
                cpu::serialize();
            }
        }
    }

    /// Up to here.
    pub(super) fn leave_guest(&self) {
        if let Some(me) = &self.member {
            self.machine().registry.leave_guest(me);
        }
    }
}
