//! Sending signals (kill(2) and its relatives): the mode decides when.

use relive_kabi::Arg;

use super::{Answer, Call, Reply, generic};
use crate::failure::Result;
use crate::task::Task;

/// kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal.
pub fn send(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    if let Some(a) = answer {
        return Ok(Reply::Value(a.result));
    }
    let args = call.row.map_or(&[][..], |r| r.args);
    let sig = args.iter().position(|arg| *arg == Arg::Sig);
    let sig = sig.map_or(0, |i| call.int(i));
    let mode = task.mode();
    let result = mode.send_signal(task, call, sig, &mut |task| generic(task, call))?;
    Ok(Reply::Value(result))
}
