//! Sending signals (kill(2) and its relatives): the mode decides when.

use relive_kabi::Arg;

use super::generic::generic;
use super::operation::{Operation, Prepared};
use crate::call::Call;
use crate::failure::Result;
use crate::ptrace::tracer;
use crate::task::Task;

/// kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal.
pub struct Send;

impl Operation for Send {
    /// The signal.
    type Plan = i32;

    fn prepare(_: &mut Task, call: &Call) -> Prepared<i32> {
        Ok(signal(call))
    }

    fn perform(task: &mut Task, call: &Call, sig: &mut i32) -> Result<i64> {
        if *sig == libc::SIGSTOP && tracer::stops_tracee(task, call) {
            return Ok(0);
        }
        let mode = task.mode();
        mode.send_signal(task, call, *sig, &mut |task| generic(task, call))
    }
}

/// The argument that is the signal, whichever it is.
fn signal(call: &Call) -> i32 {
    let args = call.row.map_or(&[][..], |r| r.args);
    let sig = args.iter().position(|arg| *arg == Arg::Sig);
    sig.map_or(0, |i| call.int(i))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signal_is_where_the_row_says() {
        let sent = |nr: i64, args| signal(&Call::of(nr as u32, args));
        assert_eq!(sent(libc::SYS_kill, [7, 15, 0, 0, 0, 0]), 15);
        assert_eq!(sent(libc::SYS_tgkill, [7, 8, 10, 0, 0, 0]), 10);
        assert_eq!(sent(libc::SYS_rt_tgsigqueueinfo, [7, 8, 12, 1, 0, 0]), 12);
        assert_eq!(sent(libc::SYS_pidfd_send_signal, [3, 9, 0, 0, 0, 0]), 9);
    }
}
