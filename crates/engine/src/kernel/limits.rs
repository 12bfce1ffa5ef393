//! Resource limits: the kernel keeps most of them. Those on address space and data would hit the
//! host, whose memory is larger than any limit: they are kept here, and looked at where the
//! guest's own memory grows. That of the stack sets the size of the first thread's.

use relive_host::Reg;
use relive_host::addr::PAGE;

use super::live::generic;
use super::{Answer, Call, Reply};
use crate::failure::Result;
use crate::loader::{STACK_NAME, STACK_TOP, stack_bytes};
use crate::machine::machine;
use crate::memory::{Memory, Source};
use crate::process::Limit;
use crate::space::{Region, WRITE};
use crate::task::Task;

const AS: i32 = libc::RLIMIT_AS as i32;
const DATA: i32 = libc::RLIMIT_DATA as i32;
const STACK: i32 = libc::RLIMIT_STACK as i32;

/// What one call asks for.
struct Asked {
    resource: i32,
    /// Address of the new limit, 0 for none.
    new: u64,
    /// Where the old one goes, 0 for nowhere.
    old: u64,
    /// Of the caller itself.
    own: bool,
}

impl Asked {
    fn of(task: &Task, call: &Call) -> Self {
        match i64::from(call.nr) {
            libc::SYS_prlimit64 => Self {
                resource: call.int(1),
                new: call.args[2],
                old: call.args[3],
                own: call.int(0) == 0 || call.int(0) as u32 == task.process.pid,
            },
            nr => {
                let sets = nr == libc::SYS_setrlimit;
                Self {
                    resource: call.int(0),
                    new: if sets { call.args[1] } else { 0 },
                    old: if sets { 0 } else { call.args[1] },
                    own: true,
                }
            }
        }
    }
}

/// getrlimit(2), setrlimit(2), prlimit(2).
pub fn limits(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    let asked = Asked::of(task, call);
    if let (AS | DATA, true) = (asked.resource, asked.own) {
        // Kept, and seen by the guest, in both modes alike.
        return Ok(Reply::Value(match kept(task, &asked, answer) {
            Ok(()) => 0,
            Err(e) => e,
        }));
    }
    let result = match answer {
        Some(a) => a.result,
        None => {
            if let (true, Some(shm)) = (asked.new != 0, &machine().shm)
                && asked.resource == libc::RLIMIT_FSIZE as i32
            {
                // Before the limit is there: it may be another process's.
                crate::input::SHARED.of(shm).look_for_limits();
            }
            if asked.resource == libc::RLIMIT_NOFILE as i32 && asked.own && asked.new != 0 {
                keep_descriptors(task, &asked);
            }
            generic(task, call)
        }
    };
    if result == 0 && asked.resource == STACK && asked.own && asked.new != 0 {
        let soft = task.read_u64(asked.new).unwrap_or(0);
        resize_stack(task, stack_bytes(soft));
    }
    Ok(Reply::Value(result))
}

/// The next program's host must come to all it needs without new descriptors.
fn keep_descriptors(task: &Task, asked: &Asked) {
    let hard = task.read_u64(asked.new + 8);
    if hard.is_ok_and(|hard| hard < crate::descriptor_limit::ENOUGH) {
        crate::reach::prepare(task, false);
    }
}

fn kept(task: &mut Task, asked: &Asked, answer: Option<&Answer>) -> std::result::Result<(), i64> {
    let new = match asked.new {
        0 => None,
        at => Some((task.read_u64(at)?, task.read_u64(at + 8)?)),
    };
    let limits = task.process.state().limits;
    let before = match asked.resource {
        AS => limits.space,
        _ => limits.data,
    };
    if let Some(new) = new {
        // SAFETY: only asks.
        let raises = || unsafe { libc::geteuid() } == 0;
        let raises = answer.map_or_else(raises, |a| a.result == 0);
        set(task, asked.resource, before, new, raises)?;
    }
    if asked.old != 0 {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&before.0.to_le_bytes());
        bytes[8..].copy_from_slice(&before.1.to_le_bytes());
        task.write(asked.old, &bytes)?;
        task.log.wrote(asked.old, 16);
    }
    Ok(())
}

fn set(
    task: &Task,
    resource: i32,
    before: Limit,
    new: Limit,
    raises: bool,
) -> std::result::Result<(), i64> {
    if new.0 > new.1 {
        return Err(-i64::from(libc::EINVAL));
    }
    if new.1 > before.1 && !raises {
        return Err(-i64::from(libc::EPERM));
    }
    let limits = &mut task.process.state().limits;
    match resource {
        AS => limits.space = new,
        _ => limits.data = new,
    }
    Ok(())
}

/// Whether the guest's memory may grow by a map of `len` bytes at `at` (0 for a new place).
///
/// # Errors
/// The errno of mmap(2).
pub fn may_map(
    task: &Task,
    memory: &Memory,
    (at, len): (u64, u64),
    prot: u32,
    flags: i32,
) -> std::result::Result<(), i32> {
    let limits = task.process.state().limits;
    let most = libc::RLIM_INFINITY;
    if (limits.space.0, limits.data.0) == (most, most) {
        return Ok(());
    }
    let (space, data) = used(memory);
    let replaced: u64 = if flags & libc::MAP_FIXED != 0 {
        let there = memory.space.overlapping(at, at.saturating_add(len));
        there.map(|r| r.end.min(at + len) - r.start.max(at)).sum()
    } else {
        0
    };
    let private = flags & libc::MAP_TYPE == libc::MAP_PRIVATE;
    let more = |used: u64, limit: u64| (used + len).saturating_sub(replaced) > limit;
    if more(space, limits.space.0) || private && prot & WRITE != 0 && more(data, limits.data.0) {
        return Err(libc::ENOMEM);
    }
    Ok(())
}

/// Bytes of all memory, and of what is data: private, writable, no stack. Of the first thread's
/// stack, which is mapped as a whole, the kernel would have mapped little.
pub(super) fn used(memory: &Memory) -> (u64, u64) {
    const FIRST: u64 = 33 * PAGE;
    let (mut space, mut data) = (0, 0);
    for r in memory.space.iter() {
        let len = r.end - r.start;
        if &*r.name == STACK_NAME {
            space += len.min(FIRST);
            continue;
        }
        space += len;
        if !r.shared && !r.common && r.prot & WRITE != 0 && !r.traits.grows {
            data += len;
        }
    }
    (space, data)
}

/// Gives the first thread's stack another size, as its limit has changed: what the kernel would
/// do page by page. What is in use stays.
fn resize_stack(task: &Task, size: u64) {
    let sp = task.ctx.reg(Reg::Rsp);
    let mut memory = machine().memory();
    let Some(stack) = memory.space.at(STACK_TOP - 1).cloned() else {
        return;
    };
    if &*stack.name != STACK_NAME {
        return;
    }
    let start = STACK_TOP - size;
    if start < stack.start {
        let part = Region {
            start,
            end: stack.start,
            ..stack
        };
        if memory.space.is_free(part.start, part.end) {
            // Without room the stack stays as it is, as one that meets other maps.
            let _ = memory.map(part, Source::Anon);
        }
    } else if (stack.start..STACK_TOP).contains(&sp) {
        let end = start.min((sp & !(PAGE - 1)).saturating_sub(PAGE));
        if stack.start < end {
            memory.unmap(stack.start, end);
        }
    }
}
