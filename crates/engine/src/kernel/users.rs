//! Calls by which a program gives up rights, or changes what paths lead to: made as they are,
//! after the host has opened what it needs ([`crate::reach`]).

use super::call::Call;
use super::live::generic;
use super::operation::{Operation, Prepared};
use crate::failure::Result;
use crate::task::Task;

/// setuid(2) and its like, setgroups(2), capset(2).
pub struct Rights;

impl Operation for Rights {
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn perform(task: &mut Task, call: &Call, (): &mut ()) -> Result<i64> {
        Ok(perform(task, call, false))
    }
}

/// chroot(2), pivot_root(2), mount(2) and its like.
pub struct Paths;

impl Operation for Paths {
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn perform(task: &mut Task, call: &Call, (): &mut ()) -> Result<i64> {
        Ok(perform(task, call, true))
    }
}

fn perform(task: &mut Task, call: &Call, moved: bool) -> i64 {
    crate::reach::prepare(task, moved);
    let result = generic(task, call);
    // SAFETY: only asks.
    if unsafe { libc::prctl(libc::PR_GET_DUMPABLE) } == 0 {
        // Only asked where calls are made: a replay takes the answer from the tape.
        task.process.state().dumpable = 0;
    }
    result
}
