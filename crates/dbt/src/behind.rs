//! Exits that are answered without the translator: system calls, the end of a budget, `pause`. Their
//! code tells all about them, so that no lock is needed. An entry noted before translations were
//! forgotten must never be used after.

use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::{Pod, Zeroable};
use relive_host::context::{EXIT_DESCRIBED, EXIT_FAULT, EXIT_TOLD};
use relive_host::layout::{CACHE_START, in_cache};
use relive_host::{Context, GuestAddr};

use crate::stop::{Next, Stop};

/// Length of `syscall`.
pub(crate) const SYSCALL_BYTES: usize = 2;

/// Changes whenever translations are forgotten.
/// Process-wide: a thread compares it behind each system call, without the translator and its lock.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// The description of an exit in the code cache: the end of a budget on the way to a guest address, or a
/// `pause` before it.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Description {
    pub(crate) pc: u64,
    /// Where to enter the cache to go on there.
    pub(crate) entry: u32,
    /// The flags that are dead there, as bits of RFLAGS.
    pub(crate) dead: u16,
    /// Not 0 for a `pause`, whose tick has not been counted.
    pub(crate) pause: u16,
}

/// Length of a description.
pub(crate) const DESCRIPTION: u32 = size_of::<Description>() as u32;

/// The word that an exit stores whose description is at this address of the cache.
pub(crate) fn described_at(at: u32) -> u32 {
    EXIT_DESCRIBED | (at - CACHE_START as u32)
}

/// The description of the exit that was taken, if it has one.
pub(crate) fn description(exit: u32) -> Option<Description> {
    if exit == EXIT_FAULT || exit & EXIT_DESCRIBED == 0 {
        return None;
    }
    let at = CACHE_START + u64::from(exit & !EXIT_DESCRIBED);
    assert!(in_cache(at + u64::from(DESCRIPTION)), "exit {exit:#x}");
    // SAFETY: the exit was stored by code in the cache, which holds the description for as long as
    // the code, and so until this thread, which has just come from there, is at rest.
    Some(unsafe { (at as *const Description).read_unaligned() })
}

/// The cache entry of the code behind a stop, so that the guest goes on without asking the
/// translator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Behind {
    pc: u64,
    entry: u64,
    epoch: u64,
}

impl Behind {
    /// Answers the exit through which `ctx` has left the cache, if the exit tells all about it: as
    /// [`crate::Translator::resolve`] does, but with no look at anything but the context and the
    /// exit. No thread may have been told that this one is at rest since.
    #[inline]
    #[must_use]
    pub fn exit(ctx: &mut Context) -> Option<(Next, Self)> {
        if ctx.exit == EXIT_FAULT {
            return None;
        }
        if let Some(described) = description(ctx.exit) {
            return Some(Self::described(ctx, described));
        }
        if ctx.exit & EXIT_TOLD == 0 {
            return None;
        }
        ctx.forget_x87_pointers();
        let pc = GuestAddr(ctx.rip);
        let next = pc.offset(SYSCALL_BYTES as u64);
        let stop = Stop::Syscall { pc, next };
        Some((Next::Stop(stop), Self::at(next.0, ctx.entry)))
    }

    fn described(ctx: &mut Context, exit: Description) -> (Next, Self) {
        let pc = GuestAddr(exit.pc);
        let behind = Self::at(exit.pc, exit.entry.into());
        let stop = match exit.pause != 0 {
            true if !ctx.count_tick() => Stop::Pause { next: pc },
            false if ctx.deal_on() => return (Next::Enter(exit.entry.into()), behind),
            _ => Stop::Budget { pc },
        };
        ctx.rip = exit.pc;
        ctx.rflags &= !u64::from(exit.dead);
        ctx.forget_x87_pointers();
        (Next::Stop(stop), behind)
    }

    fn at(pc: u64, entry: u64) -> Self {
        let epoch = EPOCH.load(Ordering::Acquire);
        Self { pc, entry, epoch }
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
