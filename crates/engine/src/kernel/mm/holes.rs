//! Calls on memory that the kernel makes, but whose holes it does not see: to it the whole window is
//! mapped. They must never change the map.

use relive_host::addr::PAGE;

use crate::call::Call;
use crate::failure::Result;
use crate::kernel::generic::generic;
use crate::space::pages;
use crate::task::Task;

/// mincore(2): in front of a hole the kernel has told of the pages that there are.
pub fn mincore(task: &mut Task, call: &Call) -> Result<i64> {
    let Some((start, end)) = range(call) else {
        return generic(task, call);
    };
    let there = task.machine().memory().space.mapped_until(start, end);
    if there >= end {
        return generic(task, call);
    }
    let mut first = *call;
    first.args[1] = there - start;
    let result = match there > start {
        true => generic(task, &first)?,
        false => 0,
    };
    Ok(match result {
        0 => -i64::from(libc::ENOMEM),
        errno => errno,
    })
}

/// msync(2): the same, but the mapped parts are written to their files first.
pub fn msync(task: &mut Task, call: &Call) -> Result<i64> {
    if call.int(2) & libc::MS_INVALIDATE != 0 && has_locked(task, call) {
        return Ok(-i64::from(libc::EBUSY));
    }
    let result = generic(task, call)?;
    let hole = result == 0 && has_hole(task, call);
    Ok(if hole {
        -i64::from(libc::ENOMEM)
    } else {
        result
    })
}

/// Whether a range that msync(2) would take has locked parts.
fn has_locked(task: &Task, call: &Call) -> bool {
    const KNOWN: i32 = libc::MS_ASYNC | libc::MS_INVALIDATE | libc::MS_SYNC;
    let [start, len, ..] = call.args;
    let flags = call.int(2);
    let wrong = flags & !KNOWN != 0 || flags & libc::MS_ASYNC != 0 && flags & libc::MS_SYNC != 0;
    let end = pages(len).and_then(|len| start.checked_add(len));
    match end.filter(|_| start % PAGE == 0 && !wrong) {
        Some(end) => {
            let memory = task.machine().memory();
            memory
                .space
                .overlapping(start, end)
                .any(|r| r.traits.locked)
        }
        None => false,
    }
}

/// Whether a range, whose start and length come first in a call, has parts that the guest has not
/// mapped. A range that the kernel would not take has none.
fn has_hole(task: &Task, call: &Call) -> bool {
    range(call).is_some_and(|(start, end)| !task.machine().memory().space.is_mapped(start, end))
}

/// The range whose start and length come first in a call; `None`: the kernel would not take it.
fn range(call: &Call) -> Option<(u64, u64)> {
    let [start, len, ..] = call.args;
    let end = start.checked_add(pages(len)?)?;
    (start % PAGE == 0).then_some((start, end))
}
