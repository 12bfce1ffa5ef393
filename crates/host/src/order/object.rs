//! The object of a line: its lock, and the last operation of a thread that held it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::edge::Edge;
use crate::context::Context;
use crate::sys;

/// [`Object`]'s lock while a thread holds it: no part of a thread's number.
pub const HELD: u32 = 1 << 31;

/// Looks at an object that another thread holds before the processor is offered to others.
pub(super) const LOOKS: u32 = 100;

/// The object of a line. All but the lock belongs to the thread that holds it.
#[repr(C, align(16))]
pub struct Object {
    /// 0 while no thread holds it, otherwise [`HELD`].
    lock: AtomicU32,
    /// [`Context::order_id`] of the last thread that held it; 0 for none.
    last: AtomicU32,
    /// The ordinal of that thread's operation.
    op: AtomicU64,
}

/// Offset of [`Object`]'s last thread, for emitted code.
pub const LAST: u8 = std::mem::offset_of!(Object, last) as u8;
/// Offset of [`Object`]'s ordinal.
pub const OP: u8 = std::mem::offset_of!(Object, op) as u8;

impl Object {
    /// Takes the object for an operation of the thread whose context this is, and counts and orders
    /// the operation. The thread holds no object yet, or those that [`super::hold`] has before this one, and may not be
    /// stopped until it has released it.
    ///
    /// # Panics
    /// There is no room for an edge, or the thread has no number.
    pub fn acquire(&self, ctx: &mut Context) {
        assert_ne!(
            ctx.order_id, 0,
            "a thread without a number cannot be ordered"
        );
        while self.lock.swap(HELD, Ordering::Acquire) != 0 {
            self.look();
        }
        ctx.ops += 1;
        let from = self.last.load(Ordering::Relaxed);
        if from != ctx.order_id {
            if from != 0 {
                let edge = Edge {
                    at: ctx.ops,
                    ticks: ctx.ticks(),
                    from_op: self.op.load(Ordering::Relaxed),
                    from,
                    pad: 0,
                };
                ctx.log_edge(edge);
            }
            self.last.store(ctx.order_id, Ordering::Relaxed);
        }
        self.op.store(ctx.ops, Ordering::Relaxed);
    }

    /// Frees the object of an operation that has not happened; that before it, of the same thread,
    /// is the last.
    pub(super) fn take_back(&self, before: u64) {
        self.op.store(before, Ordering::Relaxed);
        self.release();
    }

    /// Frees the object.
    pub fn release(&self) {
        self.lock.store(0, Ordering::Release);
    }

    /// Whether a thread holds the object; another one may have changed that since.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.lock.load(Ordering::Relaxed) != 0
    }

    /// Waits until the object has been seen free.
    fn look(&self) {
        loop {
            for _ in 0..LOOKS {
                if self.lock.load(Ordering::Relaxed) == 0 {
                    return;
                }
                std::hint::spin_loop();
            }
            // SAFETY: offers the processor to others.
            unsafe { sys::syscall(libc::SYS_sched_yield as u64, [0; 6]) };
        }
    }
}
