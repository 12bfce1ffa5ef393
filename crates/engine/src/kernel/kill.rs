//! Sending signals (kill(2) and its relatives): the mode decides when.

use super::{Answer, Call, Reply, generic};
use crate::failure::Result;
use crate::task::Task;

/// kill, tkill, tgkill, rt_sigqueueinfo, rt_tgsigqueueinfo, pidfd_send_signal.
pub fn send(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    if let Some(a) = answer {
        return Ok(Reply::Value(a.result));
    }
    let sig = match i64::from(call.nr) {
        libc::SYS_tgkill | libc::SYS_rt_tgsigqueueinfo => call.int(2),
        _ => call.int(1),
    };
    let mode = task.mode();
    let result = mode.send_signal(task, call, sig, &mut |task| generic(task, call))?;
    Ok(Reply::Value(result))
}
