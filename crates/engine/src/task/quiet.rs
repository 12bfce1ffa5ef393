//! A guest thread's part in the registry ([`crate::registry`]), where threads run together and one of
//! them can bring the others to rest. In other modes these functions have no effect.

use std::sync::Arc;

use relive_host::cpu;
use relive_host::segments::Segments;

use super::Task;
use crate::failure::Result;
use crate::memory::Memory;
use crate::mode::Mode;
use crate::registry::{Member, NOT_QUIET, Quiet, RestPlace};

impl Task {
    /// Brings all other threads to rest, and keeps them there until the [`Quiet`] is dropped; `None`:
    /// they do not run together. The caller must hold no lock. It stands aside while others have their quiet: in the
    /// call at hand (`event`), or in front of its next instruction.
    ///
    /// # Errors
    /// The order of memory is lost.
    pub fn quiesce(&mut self, event: bool) -> Result<Option<Quiet<'static>>> {
        self.ask_for_quiet(event, RestPlace::Unknown)
    }

    /// The same in a call of which nothing is done yet. If another thread makes the process go over to turns
    /// meanwhile, this one does so too, and has its turn: `None`.
    ///
    /// # Errors
    /// The order of memory or the turn is lost.
    pub fn quiesce_or_go_over(&mut self) -> Result<Option<Quiet<'static>>> {
        self.ask_for_quiet(true, RestPlace::Call)
    }

    /// The same at a safe point, where the thread has nothing in its hands.
    ///
    /// # Errors
    /// The order of memory is lost.
    pub fn quiesce_at_safe_point(&mut self) -> Result<Option<Quiet<'static>>> {
        self.ask_for_quiet(false, RestPlace::SafePoint)
    }

    fn ask_for_quiet(&mut self, event: bool, place: RestPlace) -> Result<Option<Quiet<'static>>> {
        // The thread keeps its member as long as it runs.
        let Some(me) = self.member.clone() else {
            return Ok(None);
        };
        me.rests_at(place, self.address());
        let (registry, mut aside) = (&self.machine().registry, Ok(()));
        let quiet = registry.quiesce(&me, &mut || {
            aside = self.stand_aside(&me, event);
            if aside.is_ok() && place == RestPlace::SafePoint {
                aside = self.mode().rested(self);
            }
            aside.is_ok() && self.member.is_some()
        });
        aside?;
        Ok(quiet)
    }

    /// Stands still while another thread has quiet.
    #[cold]
    fn stand_aside(&mut self, me: &Member, event: bool) -> Result<()> {
        self.mode().order().stands_still(self, event)?;
        self.can_be_read();
        self.machine().registry.give_way(me);
        self.mode().order().stood_still(self, event)?;
        if let Some(holder) = &self.holder {
            holder.goes_on();
        }
        match event {
            true => self.mode().order().back_in_call(self),
            false => Ok(()),
        }
    }

    /// Whether no other thread runs: the others are at rest, or never run beside this one.
    #[must_use]
    pub fn is_undisturbed(&self) -> bool {
        let registry = &self.machine().registry;
        let quiet = |me: &_| registry.single() || registry.is_quiet_for(me);
        self.member.as_deref().is_none_or(quiet)
    }

    /// Checks that the guest's map may change in a range now.
    ///
    /// # Errors
    /// [`NOT_QUIET`]: all other threads must be at rest.
    pub fn may_change(
        &self,
        memory: &Memory,
        start: u64,
        end: u64,
    ) -> std::result::Result<(), i32> {
        match self.is_undisturbed() || start >= end || !memory.needs_quiet(start, end) {
            true => Ok(()),
            false => Err(NOT_QUIET),
        }
    }

    /// Where it is in memory, for [`Member::rests_at`].
    pub fn address(&self) -> usize {
        std::ptr::from_ref(self).expose_provenance()
    }

    /// The thread comes to rest: where checkpoints are made, others may read all of its registers meanwhile. Those in the
    /// processor they could not.
    pub fn can_be_read(&mut self) {
        if self.traits().checkpoints && self.member.is_some() {
            self.store_registers();
        }
    }

    /// Those in the processor are in memory too, for whoever describes the task.
    pub fn store_registers(&mut self) {
        self.ctx.vectors_mut();
        self.segments = Segments::stored();
    }

    /// Makes a call by `enter`, during which the kernel does not write guest memory.
    pub fn while_away(&mut self, enter: &mut dyn FnMut() -> i64) -> i64 {
        self.can_be_read();
        let Some(me) = &self.member else {
            return enter();
        };
        let registry = &self.machine().registry;
        // The event of a call that does not return cannot say that the thread waited for its turn in it.
        let place = match self.vforked.is_none() && !self.leaves_for_good() {
            true => RestPlace::Call,
            false => RestPlace::Unknown,
        };
        me.rests_at(place, self.address());
        loop {
            registry.leave_for_kernel(me);
            let result = enter();
            registry.come_back(me);
            let called_out = std::mem::take(&mut self.ctx.wanted) != 0;
            // A call-out that came late, when the thread had left translated code by itself, has
            // interrupted the call: it is no signal of the guest's, and the call has had no effect yet.
            if !called_out || result != -i64::from(libc::EINTR) || self.ctx.pending != 0 {
                if let Some(holder) = &self.holder {
                    holder.goes_on();
                }
                return result;
            }
        }
    }

    /// From here on the thread may hold addresses in the code cache. Whether it has stood aside before.
    ///
    /// # Errors
    /// As [`Turns::rested`](crate::mode::Turns::rested).
    pub(super) fn enter_guest(&mut self) -> Result<bool> {
        let mut stood_aside = false;
        while let Some(me) = &self.member {
            self.ctx.wanted = 0;
            let place = match (&self.vforked, self.exact) {
                (Some(_), _) => RestPlace::Unknown,
                (None, true) => RestPlace::SafePoint,
                (None, false) => RestPlace::Instruction,
            };
            me.rests_at(place, self.address());
            match self.machine().registry.enter_guest(me) {
                Some(false) => {}
                Some(true) => {
                    self.mode().rested(self)?;
                    cpu::serialize();
                }
                None => {
                    let me = Arc::clone(me);
                    self.stand_aside(&me, false)?;
                    stood_aside = true;
                    continue;
                }
            }
            break;
        }
        Ok(stood_aside)
    }

    /// The thread has turns from here on, in another mode, and takes no part in bringing threads to rest.
    pub fn part(&mut self, mode: &'static dyn Mode) {
        self.set_mode(mode);
        self.member = None;
    }

    /// From here on it holds none.
    pub(super) fn leave_guest(&self) {
        if let Some(me) = &self.member {
            self.machine().registry.leave_guest(me);
        }
    }
}
