//! munmap(2).

use relive_host::addr::PAGE;

use crate::call::Call;
use crate::call::reply::Reply;
use crate::failure::Result;
use crate::kernel::operation::RecordedResult;
use crate::memory::Memory;
use crate::space::pages;
use crate::task::Task;

/// The end of the addresses that the kernel gives to a process.
const ADDRESSES: u64 = 0x7fff_ffff_f000;

/// munmap(2).
pub fn munmap(task: &mut Task, call: &Call, _: RecordedResult) -> Result<Reply> {
    let invalid = Ok(Reply::Value(-i64::from(libc::EINVAL)));
    let [start, len, ..] = call.args;
    let (Some(len), true) = (pages(len), start % PAGE == 0) else {
        return invalid;
    };
    let Some(end) = start.checked_add(len).filter(|&end| end <= ADDRESSES) else {
        return invalid;
    };
    let mut memory = task.machine().memory();
    if let Err(e) = task.may_change(&memory, start, end) {
        return Ok(Reply::Value(-i64::from(e)));
    }
    release(&mut memory, start, end)?;
    Ok(Reply::Value(0))
}

/// Unmaps the regions in a range; there are none outside the guest's windows.
///
/// # Errors
/// The kernel keeps no more maps apart.
pub(super) fn release(memory: &mut Memory, start: u64, end: u64) -> Result<()> {
    let overlapping = memory.space.overlapping(start, end);
    let parts: Vec<(u64, u64)> = overlapping
        .map(|r| (r.start.max(start), r.end.min(end)))
        .collect();
    for (s, e) in parts {
        memory.unmap(s, e)?;
    }
    Ok(())
}
