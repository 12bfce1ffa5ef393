//! Making system calls: with the baton given up while a call sleeps, and cut short by signals.

use relive_host::sys;
use relive_kabi::Restart;

use super::resume::ERESTART;
use super::waits::times_out;
use crate::call::Call;
use crate::failure::Result;
use crate::task::Task;

/// Makes a call during which other threads run. The arguments must not point into guest memory
/// that the kernel writes and others see.
///
/// # Errors
/// As [`Turns::asleep`](crate::mode::Turns::asleep).
pub fn blocking(task: &mut Task, nr: u32, args: &[u64; 6]) -> Result<i64> {
    let mode = task.mode();
    mode.asleep(task, &mut || enter_kernel(nr, args, true))
}

/// Makes a call as it is; a call that `sleeps` is cut short by a signal that has been noted.
pub fn enter_kernel(nr: u32, args: &[u64; 6], sleeps: bool) -> i64 {
    // SAFETY: the table says that this call touches only the buffers that its row names,
    // and hooks cover those that change the process itself.
    let result = unsafe {
        if sleeps {
            sys::syscall_interruptible(u64::from(nr), args)
        } else {
            sys::syscall_marked(u64::from(nr), args)
        }
    };
    result as i64
}

/// The result, for now, of a call that a signal may have cut short.
pub fn interrupted(task: &Task, call: &Call, result: i64) -> i64 {
    let eintr = -i64::from(libc::EINTR);
    let ours = result == sys::INTERRUPTED as i64 || (result == eintr && task.ctx.pending != 0);
    match (ours, call.restart()) {
        (false, _) => result,
        // The handler runs with the call's own mask, which is over otherwise.
        (true, Restart::Never) if task.signals.saved_mask.is_some() => ERESTART,
        (true, Restart::Never) => eintr,
        (true, Restart::Handler) if times_out(call) => eintr,
        (true, _) => ERESTART,
    }
}
