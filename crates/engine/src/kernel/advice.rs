//! madvise(2): advice that changes contents, or a forked child's share, is applied in every mode; all
//! other advice is only checked. Regions are taken in order, as the kernel takes them: the effect on
//! the regions before an error stays.

use relive_host::addr::PAGE;

use super::operation::RecordedResult;
use crate::call::Call;
use crate::call::reply::Reply;
use crate::failure::{CallError, CallResult, Result};
use crate::memory::Memory;
use crate::space::{self, OnFork, Region, pages};
use crate::task::Task;

const MADV_DONTNEED_LOCKED: i32 = 24;

/// The effect of an advice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Nothing.
    None,
    /// The kernel may drop the pages at any later time: they are kept instead, which it allows too.
    Free,
    /// The pages may leave memory for a while.
    Cold,
    /// The pages are brought into memory, if they have this protection.
    Populate(u32),
    /// The pages are discarded, in locked memory too if `locked` is set.
    Discard { locked: bool },
    /// The pages are removed from the file too.
    Remove,
    /// A forked child's share of the pages.
    Fork(OnFork),
}

/// By advice. An advice without a row is unknown (EINVAL), as it is to older kernels.
const EFFECTS: &[(i32, Effect)] = &[
    (libc::MADV_NORMAL, Effect::None),
    (libc::MADV_RANDOM, Effect::None),
    (libc::MADV_SEQUENTIAL, Effect::None),
    (libc::MADV_WILLNEED, Effect::None),
    (libc::MADV_DONTNEED, Effect::Discard { locked: false }),
    (libc::MADV_FREE, Effect::Free),
    (libc::MADV_REMOVE, Effect::Remove),
    (libc::MADV_DONTFORK, Effect::Fork(OnFork::Drop)),
    (libc::MADV_DOFORK, Effect::Fork(OnFork::Keep)),
    (libc::MADV_MERGEABLE, Effect::None),
    (libc::MADV_UNMERGEABLE, Effect::None),
    (libc::MADV_HUGEPAGE, Effect::None),
    (libc::MADV_NOHUGEPAGE, Effect::None),
    (libc::MADV_DONTDUMP, Effect::None),
    (libc::MADV_DODUMP, Effect::None),
    (libc::MADV_WIPEONFORK, Effect::Fork(OnFork::Wipe)),
    (libc::MADV_KEEPONFORK, Effect::Fork(OnFork::Keep)),
    (libc::MADV_COLD, Effect::Cold),
    (libc::MADV_PAGEOUT, Effect::Cold),
    (libc::MADV_POPULATE_READ, Effect::Populate(space::READ)),
    (libc::MADV_POPULATE_WRITE, Effect::Populate(space::WRITE)),
    (MADV_DONTNEED_LOCKED, Effect::Discard { locked: true }),
];

/// madvise(2).
pub fn madvise(task: &mut Task, call: &Call, told: RecordedResult) -> Result<Reply> {
    Ok(Reply::Value(match (advise(task, call, told), told) {
        (Ok(()), _) => 0,
        // Older recordings have other errors for the same.
        (Err(CallError::Errno(_)), Some(error)) if error < 0 => error,
        (Err(e), _) => e.result()?,
    }))
}

fn advise(task: &Task, call: &Call, told: RecordedResult) -> CallResult<()> {
    let [start, len, ..] = call.args;
    let known = EFFECTS.iter().find(|(advice, _)| *advice == call.int(2));
    let Some(&(_, effect)) = known else {
        return told.map_or(Err(libc::EINVAL.into()), as_told);
    };
    if let (Some(result), Effect::None | Effect::Free | Effect::Cold | Effect::Populate(_)) =
        (told, effect)
    {
        return as_told(result);
    }
    if start % PAGE != 0 {
        return Err(libc::EINVAL.into());
    }
    let Some(len) = pages(len) else {
        return match (len, told) {
            (0, _) => Ok(()),
            (_, Some(result)) => as_told(result),
            (_, None) => Err(libc::EINVAL.into()),
        };
    };
    let end = start.checked_add(len).ok_or(libc::EINVAL)?;
    let mut memory = task.machine().memory();
    if matches!(effect, Effect::Discard { .. } | Effect::Remove) {
        task.may_change(&memory, start, end)?;
    }
    let parts: Vec<Region> = memory.space.overlapping(start, end).cloned().collect();
    // An older recording may have been refused where the kernel would not refuse: nothing was done.
    let accepts = || parts.iter().all(|part| check(effect, part, told).is_ok());
    if let Some(Err(refused)) = told.map(as_told)
        && refused != libc::ENOMEM.into()
        && accepts()
    {
        return Err(refused);
    }
    let (mut at, mut hole) = (start, false);
    for part in parts {
        hole |= part.start > at;
        if hole && matches!(effect, Effect::Populate(_)) {
            break;
        }
        at = part.end;
        let range = (part.start.max(start), part.end.min(end));
        check(effect, &part, told)?;
        apply(&mut memory, effect, range, &part)?;
    }
    match hole || at < end {
        true => Err(libc::ENOMEM.into()),
        false => Ok(()),
    }
}

/// The result that the tape has.
fn as_told(result: i64) -> CallResult<()> {
    match result {
        0 => Ok(()),
        error => Err(error.into()),
    }
}

/// The errno with which the kernel would refuse the effect on a region.
fn check(effect: Effect, region: &Region, told: RecordedResult) -> std::result::Result<(), i32> {
    let private = !region.shared && !region.common;
    let refuse_if = |no: bool| if no { Err(libc::EINVAL) } else { Ok(()) };
    let locked = region.traits.locked;
    match effect {
        Effect::None => Ok(()),
        Effect::Free => refuse_if(locked || !private || region.inode != 0),
        Effect::Cold => refuse_if(locked),
        Effect::Populate(prot) => refuse_if(region.prot & prot == 0),
        // An older recording says that all was well, and nothing had been dropped.
        Effect::Discard { locked: false } if locked => match told.map(as_told) {
            Some(Ok(())) => Ok(()),
            _ => Err(libc::EINVAL),
        },
        Effect::Discard { .. } => Ok(()),
        Effect::Remove => match private && region.inode == 0 {
            _ if locked => Err(libc::EINVAL),
            true => Err(libc::EINVAL),
            false if !region.common => Err(libc::EACCES),
            false => Ok(()),
        },
        Effect::Fork(on_fork) => {
            refuse_if(on_fork == OnFork::Wipe && (!private || region.inode != 0))
        }
    }
}

fn apply(
    memory: &mut Memory,
    effect: Effect,
    (start, end): (u64, u64),
    region: &Region,
) -> CallResult<()> {
    let locked = region.traits.locked;
    match effect {
        Effect::None | Effect::Free | Effect::Cold | Effect::Populate(_) => Ok(()),
        Effect::Discard { locked: false } if locked => Ok(()),
        // Shared memory keeps its content, in a replay of one process alone too.
        Effect::Discard { .. } if !region.shared && region.common => Ok(()),
        Effect::Discard { .. } => match memory.discard(start, end) {
            Err(CallError::Errno(_)) if !locked => Ok(()),
            discarded => discarded,
        },
        Effect::Remove => memory.remove(start, end),
        Effect::Fork(on_fork) => {
            memory.space.change(start, end, |t| t.on_fork = on_fork);
            memory.on_fork |= on_fork != OnFork::Keep;
            Ok(())
        }
    }
}
