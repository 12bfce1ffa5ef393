//! Making a call: directly, or with the baton given up while it may sleep.

use relive_host::signal::{Mask, set_mask};
use relive_host::sys;
use relive_kabi::Arg;

use super::buffers::Buffers;
use super::enter::{enter_kernel, interrupted};
use super::refuse::refuse;
use super::waits::{found_nothing, may_sleep};
use super::{own, spliced_output, stream_output};
use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::reply::Reply;
use crate::descriptor::takes_requests;
use crate::failure::Result;
use crate::siginfo::signo;
use crate::task::Task;

/// Makes a call as its row describes it, and notes the memory that it wrote.
///
/// # Errors
/// The turn behind it is lost, or a page cannot be opened.
pub fn generic(task: &mut Task, call: &Call) -> Result<i64> {
    if let Some(errno) = call.refused {
        // The kernel checks the descriptor before the request; a descriptor opened with `O_PATH`
        // takes no request.
        let takes_fd = call.row.is_some_and(|r| r.args.first() == Some(&Arg::Fd));
        return Ok(match takes_fd && !takes_requests(call.int(0)) {
            true => -i64::from(libc::EBADF),
            false => refuse(call, errno),
        });
    }
    if own::polls_too_many(call) {
        return Ok(-i64::from(libc::EINVAL));
    }
    let stream = stream_output::stream_of(task, call);
    if stream != 0 && spliced_output::moves(call) {
        return stream_output::make_spliced(task, call, stream);
    }
    let shortened = own::messages(task, call).map(|(argument, count)| {
        let mut call = *call;
        call.args[argument] = count;
        call
    });
    let call = shortened.as_ref().unwrap_or(call);
    let mut buffers = Buffers::none();
    buffers.collect(task, call);
    let mut args = match buffers.arguments(call) {
        Ok(args) => args,
        Err(errno) => return Ok(-i64::from(errno)),
    };
    buffers.unguard(task)?;
    if stream != 0 {
        let result = stream_output::make(task, call, stream, &args);
        buffers.finish(task, call, result)?;
        return Ok(result);
    }
    let mut temporary = TemporaryMask::enter(task, call);
    let together = task.has_company();
    let sleeps = call.blocks() && (together || may_sleep(task, call));
    let hides = own::polled(task, call);
    let mut result = if temporary.lets_in(task) {
        sys::INTERRUPTED as i64
    } else {
        let waits = sleeps && task.mode().others_see(task);
        if hides || together || waits && buffers.seen_by_others(task, call) {
            args = buffers.bounce(task, call, args);
        }
        if hides || together {
            buffers.hide(task);
        }
        task.strings.point(&mut args);
        temporary.patch(&mut args);
        let intended = task.intended.take();
        let mut enter = || match &intended {
            None => enter_kernel(call.nr, &args, sleeps),
            Some(change) => change.make(|| enter_kernel(call.nr, &args, sleeps)),
        };
        match waits {
            true => task.mode().asleep(task, &mut enter)?,
            false => {
                if sleeps && task.traits().checkpoints {
                    task.mode().checkpoint_before_sleep(task)?;
                }
                let made = task.mode().in_turn(task, &mut enter);
                let ends = call.blocks() && !task.log.keeps_baton && found_nothing(call, made);
                if ends && task.mode().others_see(task) {
                    task.mode().found_nothing(task)?;
                }
                made
            }
        }
    };
    result = interrupted(task, call, result);
    buffers.finish(task, call, result)?;
    Ok(result)
}

/// The outcome of a call of which the engine keeps nothing: its row describes it completely.
pub fn as_described(task: &mut Task, call: &Call, told: Option<&Answer>) -> Result<Reply> {
    Ok(Reply::Value(match told {
        None => generic(task, call)?,
        Some(answer) => {
            TemporaryMask::enter(task, call);
            answer.result
        }
    }))
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
        let Some(row) = call.row.filter(|row| row.sets_mask) else {
            return t;
        };
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

    /// Whether a signal that the engine holds back, which the kernel does not know, may come now.
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
