//! Single steps of a tracee (PTRACE_SINGLESTEP).

use super::tracee::signal;
use crate::exits::{self, Stepped};
use crate::failure::Result;
use crate::flow::Flow;
use crate::siginfo::fault_info;
use crate::task::Task;

const TRAP_TRACE: i32 = 2;

/// Executes one instruction of a task whose tracer steps it, and stops it.
///
/// # Errors
/// An event is lost, or as the instruction.
pub fn step(task: &mut Task) -> Result<Flow> {
    let stops = |task: &Task| task.traced.as_ref().map(|t| t.stops);
    let before = stops(task);
    if let Stepped::Handled { flow, .. } = exits::step(task)?
        && !matches!(flow, Flow::Continue)
    {
        return Ok(flow);
    }
    if task.exact && before.is_some() && stops(task) == before {
        let info = fault_info(libc::SIGTRAP, TRAP_TRACE, task.ctx.rip);
        if let Some(info) = signal(task, &info, false)? {
            task.signals.held.push_back(info);
        }
    }
    Ok(Flow::Continue)
}
