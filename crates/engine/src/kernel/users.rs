//! Calls by which a program gives up rights, or changes what paths lead to: made as they are,
//! after the host has opened what it needs ([`crate::reach`]).

use super::live::generic;
use super::{Answer, Call, Reply};
use crate::failure::Result;
use crate::task::Task;

/// setuid(2) and its like, setgroups(2), capset(2).
///
/// # Errors
/// None.
pub fn rights(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    changed(task, call, answer, false)
}

/// chroot(2), pivot_root(2), mount(2) and its like.
///
/// # Errors
/// None.
pub fn paths(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    changed(task, call, answer, true)
}

fn changed(task: &mut Task, call: &Call, answer: Option<&Answer>, moved: bool) -> Result<Reply> {
    if let Some(a) = answer {
        return Ok(Reply::Value(a.result));
    }
    crate::reach::prepare(task, moved);
    let result = generic(task, call);
    // SAFETY: only asks.
    if unsafe { libc::prctl(libc::PR_GET_DUMPABLE) } == 0 {
        task.process.state().dumpable = 0;
    }
    Ok(Reply::Value(result))
}
