//! Calls that set up timers which send signals: made as they are, and noted for the search for deadlocks.

use super::generic::generic;
use super::operation::{Operation, Prepared};
use crate::alarms::ALARMS;
use crate::call::Call;
use crate::failure::Result;
use crate::task::Task;

/// alarm(2), setitimer(2), timer_create(2).
pub struct Timer;

impl Operation for Timer {
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn perform(task: &mut Task, call: &Call, (): &mut ()) -> Result<i64> {
        if let Some(shm) = &task.machine().shm {
            ALARMS.of(shm).note();
        }
        generic(task, call)
    }
}
