//! Entering the cache again behind a system call without asking the translator. An entry noted
//! before translations were forgotten must never be used after.

use std::sync::atomic::{AtomicU64, Ordering};

use relive_host::context::{EXIT_FAULT, EXIT_TOLD};
use relive_host::{Context, GuestAddr};

use crate::stop::Stop;

/// Length of `syscall`.
pub(crate) const SYSCALL_BYTES: usize = 2;

/// Changes whenever translations are forgotten.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// The cache entry of the code behind a system call, so that the guest goes on without asking the
/// translator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    pc: u64,
    entry: u64,
    epoch: u64,
}

impl Behind {
    /// The exit through which `ctx` has left the cache, if that is a system call whose exit stores
    /// all about it. Then the guest's state in the context is complete and `ctx.rip` is the
    /// instruction.
    #[must_use]
    pub fn call(ctx: &mut Context) -> Option<(Stop, Self)> {
        if ctx.exit == EXIT_FAULT || ctx.exit & EXIT_TOLD == 0 {
            return None;
        }
        ctx.forget_x87_pointers();
        let pc = GuestAddr(ctx.rip);
        let next = pc.offset(SYSCALL_BYTES as u64);
        let behind = Self {
            pc: next.0,
            entry: ctx.entry,
            epoch: EPOCH.load(Ordering::Acquire),
        };
        Some((Stop::Syscall { pc, next }, behind))
    }

    /// The cache address to go on at, if the guest is to go on at `pc` and no translation has been
    /// forgotten since.
    #[must_use]
    pub fn entry(&self, pc: GuestAddr) -> Option<u64> {
        let good = self.entry != 0 && self.pc == pc.0;
        (good && self.epoch == EPOCH.load(Ordering::Acquire)).then_some(self.entry)
    }
}

/// Translations are forgotten: entries noted before are not valid any more.
pub(crate) fn new_epoch() {
    EPOCH.fetch_add(1, Ordering::AcqRel);
}
