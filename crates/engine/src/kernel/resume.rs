//! The result of a system call in the registers of its thread.

use relive_host::{GuestAddr, Reg};
use relive_kabi::Restart;

use crate::call::{Call, go_behind};
use crate::task::Task;
use crate::task::signal_state::Interrupted;

/// The logged result of a call that a signal has interrupted, before the decision whether it is made
/// again (the kernel's internal ERESTARTSYS).
pub const ERESTART: i64 = -512;

/// As [`resume`], for a task that stands at its `syscall` instruction.
pub fn resume_after(task: &mut Task, call: &Call, result: i64) {
    let next = GuestAddr(task.ctx.rip + 2);
    resume(task, call, result, next);
}

/// Puts the result into the registers, as the `syscall` instruction leaves them; an
/// interrupted call waits for the decision whether it is made again.
pub(super) fn resume(task: &mut Task, call: &Call, result: i64, next: GuestAddr) {
    go_behind(&mut task.ctx, next);
    if result == ERESTART {
        let restart = call.restart();
        task.signals.restart = Some(Interrupted {
            nr: call.nr,
            always: restart == Restart::Always,
            with_handler: restart == Restart::Handler,
            without_handler: restart != Restart::Never,
        });
    } else {
        task.ctx.set_reg(Reg::Rax, result as u64);
        if let Some(mask) = task.signals.saved_mask.take() {
            task.signals.mask = mask;
            task.mode().host().mask(mask);
        }
    }
}
