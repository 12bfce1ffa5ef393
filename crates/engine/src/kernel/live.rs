//! Making a call: directly, or with the baton given up while it may sleep.

use relive_host::signal::{Mask, set_mask};
use relive_host::sys;
use relive_kabi::{Arg, Restart};

use super::answer::Answer;
use super::buffers::Buffers;
use super::call::Call;
use super::refuse::refuse;
use super::reply::Reply;
use super::resume::ERESTART;
use super::{fds, moved, output, own};
use crate::failure::Result;
use crate::signals::info::signo;
use crate::task::Task;

/// Makes a call that has no hook, and notes what it wrote.
pub fn generic(task: &mut Task, call: &Call) -> i64 {
    if let Some(errno) = call.refused {
        // The kernel looks at the descriptor before the request, which a mere place in the file tree
        // (`O_PATH`) knows none of.
        let takes_fd = call.row.is_some_and(|r| r.args.first() == Some(&Arg::Fd));
        return match takes_fd && !fds::takes_requests(call.int(0)) {
            true => -i64::from(libc::EBADF),
            false => refuse(call, errno),
        };
    }
    let stream = output::stream_of(task, call);
    if stream != 0 && moved::moves(call) {
        return output::make_moved(task, call, stream);
    }
    let shortened = own::messages(task, call).map(|(argument, count)| {
        let mut call = *call;
        call.args[argument] = count;
        call
    });
    let call = shortened.as_ref().unwrap_or(call);
    let mut buffers = Buffers::collect(task, call);
    let mut args = match buffers.arguments(call) {
        Ok(args) => args,
        Err(errno) => return -i64::from(errno),
    };
    buffers.unguard(task);
    if stream != 0 {
        let result = output::make(task, call, stream, &args);
        buffers.finish(task, call, result);
        return result;
    }
    let mut temporary = TemporaryMask::enter(task, call);
    let sleeps = call.blocks() && fds::may_sleep(task, call);
    let hides = own::polled(task, call);
    let mut result = if temporary.lets_in(task) {
        sys::INTERRUPTED as i64
    } else if sleeps && task.mode().others_see(task) {
        if hides || buffers.seen_by_others(task, call) {
            args = buffers.bounce(task, call, args);
        }
        if hides {
            buffers.hide(task);
        }
        temporary.patch(&mut args);
        blocking(task, call.nr, &args)
    } else {
        if hides {
            args = buffers.bounce(task, call, args);
            buffers.hide(task);
        }
        temporary.patch(&mut args);
        enter_kernel(call.nr, &args, sleeps)
    };
    result = interrupted(task, call, result);
    buffers.finish(task, call, result);
    result
}

/// The outcome of a call of which the engine keeps nothing: its row says all there is to know.
pub fn as_described(task: &mut Task, call: &Call, told: Option<&Answer>) -> Result<Reply> {
    Ok(Reply::Value(match told {
        None => generic(task, call),
        Some(answer) => {
            TemporaryMask::enter(task, call);
            answer.result
        }
    }))
}

/// Makes a call during which other threads run. The arguments must not point into guest memory
/// that the kernel writes and others see.
pub fn blocking(task: &mut Task, nr: u32, args: &[u64; 6]) -> i64 {
    let mode = task.mode();
    mode.asleep(task, &mut || enter_kernel(nr, args, true))
}

/// Makes a call as it is; one that `sleeps` is cut short by a signal that has been noted.
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

/// What a call that was cut short by a signal of ours answers for now.
pub fn interrupted(task: &Task, call: &Call, result: i64) -> i64 {
    let eintr = -i64::from(libc::EINTR);
    let ours = result == sys::INTERRUPTED as i64 || (result == eintr && task.ctx.pending != 0);
    match (ours, call.restart()) {
        (false, _) => result,
        // The handler runs with the call's own mask, which is over otherwise.
        (true, Restart::Never) if task.signals.saved_mask.is_some() => ERESTART,
        (true, Restart::Never) => eintr,
        (true, Restart::Handler) if fds::times_out(call) => eintr,
        (true, _) => ERESTART,
    }
}

/// The temporary signal mask of ppoll, pselect6, epoll_pwait: the guest's mask changes for
/// the call, and the kernel gets the host's version of it.
#[derive(Default)]
pub struct TemporaryMask {
    /// Which argument to replace, and whether it is pselect6's pair.
    argument: Option<(usize, bool)>,
    /// The host's mask.
    mask: u64,
    /// pselect6: address and size of the mask.
    pair: [u64; 2],
}

impl TemporaryMask {
    /// Changes the guest's mask if the call has one. Both modes.
    pub fn enter(task: &mut Task, call: &Call) -> Self {
        let mut t = Self::default();
        let Some(row) = call.row else { return t };
        for (i, arg) in row.args.iter().enumerate() {
            let (address, pair) = match arg {
                Arg::TempMask { .. } => (call.args[i], false),
                Arg::TempMaskPair if call.args[i] != 0 => {
                    (task.read_u64(call.args[i]).unwrap_or(0), true)
                }
                _ => continue,
            };
            let Some(mask) = (address != 0)
                .then(|| task.read_u64(address).ok())
                .flatten()
            else {
                continue;
            };
            task.signals.saved_mask = Some(task.signals.mask);
            task.signals.mask = Mask(mask);
            t.argument = Some((i, pair));
            t.mask = Mask(mask).for_host().0;
        }
        t
    }

    /// Whether a signal that was held back may come now, of which the kernel knows nothing.
    fn lets_in(&self, task: &Task) -> bool {
        let mask = task.signals.mask;
        let held = &task.signals.held;
        self.argument.is_some() && held.iter().any(|info| !mask.has(signo(info)))
    }

    /// Points the argument to the host's version, which must not move until the call is over.
    fn patch(&mut self, args: &mut [u64; 6]) {
        let Some((i, pair)) = self.argument else {
            return;
        };
        args[i] = &raw const self.mask as u64;
        if pair {
            self.pair = [args[i], 8];
            args[i] = &raw const self.pair as u64;
        }
    }
}

/// Sets the mask of the calling host thread to the guest's.
pub fn apply_mask(task: &Task) {
    set_mask(task.signals.mask.for_host());
}
