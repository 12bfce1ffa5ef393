//! Locked memory: mlock(2) and its family. A program cannot see that locked pages stay in memory, but
//! it sees that they cannot be dropped (madvise(2)). The kernel locks single ranges too; it must never
//! lock everything at once: the host's memory is as large as the address space.

use relive_host::addr::PAGE;
use rustix::process::Resource;
use rustix::thread::{CapabilitySet, capabilities};

use super::generic::generic;
use super::operation::{Operation, Outcome, Prepared, RecordedResult};
use crate::call::Call;
use crate::call::reply::Reply;
use crate::failure::Result;
use crate::memory::Memory;
use crate::resource_limits;
use crate::task::Task;

/// mlock(2), mlock2(2), munlock(2): the kernel's work up to the first hole in the guest's memory,
/// where the kernel sees no hole.
pub struct Range;

/// A range of whole pages, and where the first hole in it begins.
#[derive(Clone, Copy)]
pub struct Pages {
    start: u64,
    end: u64,
    hole: u64,
}

impl Operation for Range {
    /// `None`: the range is the kernel's to refuse.
    type Plan = Option<Pages>;

    fn prepare(task: &mut Task, call: &Call) -> Prepared<Self::Plan> {
        Ok(rounded(call).map(|(start, end)| Pages {
            start,
            end,
            hole: task
                .machine()
                .memory()
                .space
                .mapped_until(start, end)
                .min(end),
        }))
    }

    fn perform(task: &mut Task, call: &Call, plan: &mut Self::Plan) -> Result<i64> {
        let Some(pages) = plan else {
            return generic(task, call);
        };
        let mut part = *call;
        (part.args[0], part.args[1]) = (pages.start, pages.hole - pages.start);
        Ok(match generic(task, &part)? {
            0 if pages.hole < pages.end => -i64::from(libc::ENOMEM),
            result => result,
        })
    }

    fn apply(task: &mut Task, call: &Call, plan: Self::Plan, outcome: &Outcome<'_>) -> Result<i64> {
        let result = outcome.result;
        let Some(Pages { start, end, hole }) = plan else {
            return Ok(result);
        };
        let mut memory = task.machine().memory();
        // Pages that cannot be brought into memory are locked all the same; above a limit none are.
        let inaccessible = memory.space.overlapping(start, hole).any(|r| r.prot == 0);
        let no_memory = result == -i64::from(libc::ENOMEM) && (hole < end || inaccessible);
        if result == 0 || result == -i64::from(libc::EAGAIN) || no_memory {
            memory.lock(start, hole, i64::from(call.nr) != libc::SYS_munlock);
        }
        Ok(result)
    }
}

/// The whole pages of a range.
fn rounded(call: &Call) -> Option<(u64, u64)> {
    let [start, len, ..] = call.args;
    let from = start & !(PAGE - 1);
    let len = len
        .checked_add(start - from)?
        .checked_next_multiple_of(PAGE)?;
    Some((from, from.checked_add(len)?))
}

/// mlockall(2).
pub struct All;

impl Operation for All {
    /// The flags.
    type Plan = i32;

    fn prepare(_: &mut Task, call: &Call) -> Prepared<i32> {
        let known = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
        let flags = call.int(0);
        if flags & !known != 0 || flags & !libc::MCL_ONFAULT == 0 {
            return Err(-i64::from(libc::EINVAL));
        }
        Ok(flags)
    }

    fn perform(task: &mut Task, _: &Call, flags: &mut i32) -> Result<i64> {
        let used = match *flags & libc::MCL_CURRENT {
            0 => 0,
            _ => super::limits::used(&task.machine().memory()).0,
        };
        Ok(may_lock(used, libc::ENOMEM).map_or_else(|e| -i64::from(e), |()| 0))
    }

    fn apply(task: &mut Task, _: &Call, flags: i32, outcome: &Outcome<'_>) -> Result<i64> {
        if outcome.result == 0 {
            let mut memory = task.machine().memory();
            memory.lock_future(flags & libc::MCL_FUTURE != 0);
            if flags & libc::MCL_CURRENT != 0 {
                memory.lock(0, u64::MAX, true);
            }
        }
        Ok(outcome.result)
    }
}

/// munlockall(2).
pub fn none(task: &mut Task, _: &Call, _: RecordedResult) -> Result<Reply> {
    let mut memory = task.machine().memory();
    memory.lock_future(false);
    memory.lock(0, u64::MAX, false);
    Ok(Reply::Value(0))
}

/// Whether a new map may be locked (`MAP_LOCKED`, or mlockall(2) before): getrlimit(2),
/// `RLIMIT_MEMLOCK`. Live only.
///
/// # Errors
/// The errno of mmap(2).
pub fn may_map(memory: &Memory, len: u64, flags: i32) -> std::result::Result<(), i32> {
    if flags & libc::MAP_LOCKED == 0 && !memory.locks_future() {
        return Ok(());
    }
    let locked = memory.space.iter().filter(|r| r.traits.locked);
    let locked: u64 = locked.map(|r| r.end - r.start).sum();
    may_lock(locked.saturating_add(len), libc::EAGAIN)
}

/// Whether the process may have so much locked memory; `much` is the errno above the limit.
fn may_lock(bytes: u64, much: i32) -> std::result::Result<(), i32> {
    match resource_limits::soft(Resource::Memlock) {
        _ if is_privileged() => Ok(()),
        0 => Err(libc::EPERM),
        most if bytes > most => Err(much),
        _ => Ok(()),
    }
}

fn is_privileged() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::IPC_LOCK))
}

#[cfg(test)]
mod tests {
    use libc::{SYS_mlock, SYS_mlockall, SYS_munlock, SYS_munlockall};

    use crate::testing::{Guest, machine};

    const AT: u64 = 0x1000_4000_0000;

    fn locked(at: u64) -> bool {
        let memory = machine().memory();
        memory.space.at(at).is_some_and(|r| r.traits.locked)
    }

    #[test]
    fn a_range_is_locked_up_to_the_first_hole() {
        let mut guest = Guest::new();
        guest.map(AT, 0x1000);
        guest.map(AT + 0x2000, 0x1000);
        let enomem = -i64::from(libc::ENOMEM);
        let range = [AT + 5, 0x2800];
        assert_eq!(guest.told(SYS_mlock, &range, -1, &[]).ok(), Some(-1));
        assert!(!locked(AT), "a forbidden call locks nothing");
        let result = guest.told(SYS_mlock, &range, enomem, &[]);
        assert_eq!(result.ok(), Some(enomem));
        assert_eq!([AT, AT + 0x2000].map(locked), [true, false]);
        let result = guest.told(SYS_munlock, &[AT, 0x1000], 0, &[]);
        assert_eq!((result.ok(), locked(AT)), (Some(0), false));
    }

    #[test]
    fn all_memory_is_locked_as_the_kernel_says() {
        let mut guest = Guest::new();
        guest.map(AT, 0x1000);
        let (now, later) = (libc::MCL_CURRENT as u64, libc::MCL_FUTURE as u64);
        for wrong in [0, libc::MCL_ONFAULT as u64, 0x80] {
            let result = guest.told(SYS_mlockall, &[wrong], 0, &[]);
            assert_eq!(result.ok(), Some(-i64::from(libc::EINVAL)), "{wrong}");
        }
        assert_eq!(guest.told(SYS_mlockall, &[now], -1, &[]).ok(), Some(-1));
        assert!(!locked(AT));
        assert_eq!(
            guest.told(SYS_mlockall, &[now | later], 0, &[]).ok(),
            Some(0)
        );
        guest.map(AT + 0x2000, 0x1000);
        assert_eq!([AT, AT + 0x2000].map(locked), [true, true]);
        assert_eq!(guest.told(SYS_munlockall, &[], 0, &[]).ok(), Some(0));
        assert!(!locked(AT) && !machine().memory().locks_future());
    }
}
