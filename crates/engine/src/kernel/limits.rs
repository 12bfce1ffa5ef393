//! Resource limits: the kernel keeps most of them. The limits on address space and data would hit the
//! host, whose memory is larger than any limit: they are kept here, and checked where the guest's own
//! memory grows. The stack's limit sets the size of the first thread's stack.

use relive_host::Reg;
use relive_host::addr::PAGE;
use relive_host::layout;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities};

use super::generic::generic;
use super::operation::{Operation, Outcome, Prepared};
use super::rights::open_ahead;
use crate::call::Call;
use crate::failure::{CallError, CallResult, Result, answered};
use crate::loader::stack_bytes;
use crate::map_names;
use crate::memory::{Memory, Source};
use crate::resource_limits::Limit;
use crate::space::{Region, WRITE};
use crate::task::Task;

const AS: i32 = libc::RLIMIT_AS as i32;
const DATA: i32 = libc::RLIMIT_DATA as i32;
const STACK: i32 = libc::RLIMIT_STACK as i32;

const EPERM: i64 = -(libc::EPERM as i64);

/// The request of one call.
pub struct LimitRequest {
    resource: i32,
    /// The new limit, if it can be read.
    new: Option<Limit>,
    /// A new limit is given.
    sets: bool,
    /// Where the old one goes, 0 for nowhere.
    old: u64,
    /// Of the caller itself.
    own: bool,
}

impl LimitRequest {
    fn of(task: &Task, call: &Call) -> Self {
        let [first, second, third, fourth, ..] = call.args;
        let (resource, new, old, own) = match i64::from(call.nr) {
            libc::SYS_prlimit64 => {
                let pid = first as u32;
                (second, third, fourth, pid == 0 || pid == task.process.pid)
            }
            libc::SYS_setrlimit => (first, second, 0, true),
            _ => (first, 0, second, true),
        };
        let limit = || Some((task.read_u64(new).ok()?, task.read_u64(new + 8).ok()?));
        Self {
            resource: resource as i32,
            new: if new == 0 { None } else { limit() },
            sets: new != 0,
            old,
            own,
        }
    }

    /// The limit is kept by the engine, and seen by the guest, in all modes alike.
    fn is_kept(&self) -> bool {
        self.own && matches!(self.resource, AS | DATA)
    }

    /// A kept limit as it is.
    fn before(&self, task: &Task) -> Limit {
        let limits = task.process.state().limits;
        match self.resource {
            AS => limits.space,
            _ => limits.data,
        }
    }

    /// Whether it raises the hard limit, which needs a privilege.
    fn raises(&self, before: Limit) -> bool {
        self.new.is_some_and(|new| new.1 > before.1)
    }
}

/// getrlimit(2), setrlimit(2), prlimit(2).
pub struct Rlimit;

impl Operation for Rlimit {
    type Plan = LimitRequest;

    fn prepare(task: &mut Task, call: &Call) -> Prepared<LimitRequest> {
        let asked = LimitRequest::of(task, call);
        if asked.is_kept() {
            if asked.sets && asked.new.is_none() {
                return Err(-i64::from(libc::EFAULT));
            }
            if asked.new.is_some_and(|(soft, hard)| soft > hard) {
                return Err(-i64::from(libc::EINVAL));
            }
        }
        Ok(asked)
    }

    fn perform(task: &mut Task, call: &Call, asked: &mut LimitRequest) -> Result<i64> {
        if asked.is_kept() {
            let may_raise =
                |sets: CapabilitySets| sets.effective.contains(CapabilitySet::SYS_RESOURCE);
            let privileged = capabilities(None).is_ok_and(may_raise);
            let refused = asked.raises(asked.before(task)) && !privileged;
            return Ok(if refused { EPERM } else { 0 });
        }
        if let (true, Some(shm)) = (asked.sets, &task.machine().shm)
            && asked.resource == libc::RLIMIT_FSIZE as i32
        {
            // Before the limit is set: it may be another process's.
            crate::input::shared_store::SHARED.of(shm).look_for_limits();
        }
        if asked.resource == libc::RLIMIT_NOFILE as i32 && asked.own {
            keep_descriptors(task, asked);
        }
        generic(task, call)
    }

    fn apply(task: &mut Task, _: &Call, asked: LimitRequest, outcome: &Outcome<'_>) -> Result<i64> {
        if asked.is_kept() {
            return change(task, &asked, outcome.result).map_or_else(CallError::result, |()| Ok(0));
        }
        if let (0, STACK, true, Some((soft, _))) =
            (outcome.result, asked.resource, asked.own, asked.new)
        {
            resize_stack(task, stack_bytes(soft))?;
        }
        Ok(outcome.result)
    }
}

/// Opens ahead the files that the next program's host needs, if the new limit leaves too few
/// descriptors to open them then.
fn keep_descriptors(task: &Task, asked: &LimitRequest) {
    let few = |(_, hard): (u64, u64)| hard < crate::descriptor_limit::ENOUGH;
    if asked.new.is_some_and(few) {
        open_ahead(task, false);
    }
}

/// Sets a kept limit, unless the `result` refuses that, and stores the old one for the guest.
fn change(task: &mut Task, asked: &LimitRequest, result: i64) -> CallResult<()> {
    let before = asked.before(task);
    if result == EPERM && asked.raises(before) {
        return Err(EPERM.into());
    }
    if let Some(new) = asked.new {
        let limits = &mut task.process.state().limits;
        match asked.resource {
            AS => limits.space = new,
            _ => limits.data = new,
        }
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

/// Whether the limit on data allows that this memory can be written.
pub fn may_become_writable(task: &Task, memory: &Memory, start: u64, end: u64) -> bool {
    let limit = task.process.state().limits.data.0;
    if limit == libc::RLIM_INFINITY {
        return true;
    }
    let there = memory.space.overlapping(start, end);
    let becomes = there.filter(|r| !r.shared && !r.common && r.prot & WRITE == 0);
    let becomes = becomes.filter(|r| !r.traits.grows && &*r.name != map_names::STACK);
    let more: u64 = becomes.map(|r| r.end.min(end) - r.start.max(start)).sum();
    more == 0 || used(memory).1 + more <= limit
}

/// Bytes of all memory, and of data: private, writable, no stack. Of the first thread's stack, which
/// is mapped here as a whole, the kernel would have mapped little.
pub(super) fn used(memory: &Memory) -> (u64, u64) {
    const FIRST: u64 = 33 * PAGE;
    let (mut space, mut data) = (0, 0);
    for r in memory.space.iter() {
        let len = r.end - r.start;
        if &*r.name == map_names::STACK {
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

/// Resizes the first thread's stack to its new limit, which the kernel would do page by page. The part
/// in use stays.
fn resize_stack(task: &Task, size: u64) -> Result<()> {
    let sp = task.ctx.reg(Reg::Rsp);
    let mut memory = task.machine().memory();
    let Some(stack) = memory.space.at(layout::STACK_TOP - 1).cloned() else {
        return Ok(());
    };
    if &*stack.name != map_names::STACK {
        return Ok(());
    }
    let start = layout::STACK_TOP - size;
    if start < stack.start {
        let part = Region {
            start,
            end: stack.start,
            ..stack
        };
        if memory.space.is_free(part.start, part.end) {
            // If the host cannot map it, the stack stays as it is, as a stack that meets other maps.
            let _ = answered(memory.map(part, Source::Anon))?;
        }
    } else if (stack.start..layout::STACK_TOP).contains(&sp) {
        let end = start.min((sp & !(PAGE - 1)).saturating_sub(PAGE));
        if stack.start < end {
            memory.unmap(stack.start, end)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use libc::{SYS_getrlimit, SYS_mmap, SYS_prlimit64, SYS_setrlimit};
    use relive_host::{GuestAddr, copy};

    use super::{AS, EPERM};
    use crate::testing::Guest;

    const AT: u64 = 0x1000_5000_0000;
    /// Outside of all guest memory.
    const NOWHERE: u64 = 0x5500_0000;

    fn put(soft: u64, hard: u64) {
        let bytes = [soft.to_le_bytes(), hard.to_le_bytes()].concat();
        copy::write(GuestAddr(AT), &bytes).expect("it is mapped");
    }

    #[test]
    fn a_kept_limit_is_set_and_shown_in_all_modes() {
        let mut guest = Guest::new();
        guest.map(AT, 0x1000);
        put(1 << 20, 1 << 30);
        let (space, old) = (AS as u64, AT + 0x100);
        assert_eq!(guest.live(SYS_setrlimit, &[space, AT]).ok(), Some(0));
        let told = guest.told(SYS_prlimit64, &[0, space, 0, old], 0, &[]);
        assert_eq!(told.ok(), Some(0));
        let shown = copy::read_array::<16>(GuestAddr(old)).expect("it is mapped");
        assert_eq!(shown[..8], (1u64 << 20).to_le_bytes());
        assert_eq!(guest.task.log.spans, [(old, 16)]);
        let much = [0, 1 << 21, 3, 0x22, u64::MAX, 0];
        let enomem = Some(-i64::from(libc::ENOMEM));
        assert_eq!(guest.live(SYS_mmap, &much).ok(), enomem);
    }

    #[test]
    fn a_limit_is_refused_before_anything_changes() {
        let mut guest = Guest::new();
        guest.map(AT, 0x1000);
        let space = AS as u64;
        let wrong = [(2, 1, AT, libc::EINVAL), (1, 1, NOWHERE, libc::EFAULT)];
        for (soft, hard, at, errno) in wrong {
            put(soft, hard);
            let result = guest.live(SYS_setrlimit, &[space, at]);
            assert_eq!(result.ok(), Some(-i64::from(errno)));
        }
        put(1 << 20, 1 << 20);
        assert_eq!(
            guest.told(SYS_setrlimit, &[space, AT], 0, &[]).ok(),
            Some(0)
        );
        put(1 << 30, 1 << 30);
        let forbidden = guest.told(SYS_setrlimit, &[space, AT], EPERM, &[]);
        assert_eq!(forbidden.ok(), Some(EPERM));
        let limits = guest.task.process.state().limits;
        assert_eq!(limits.space, (1 << 20, 1 << 20));
        let bad = guest.live(SYS_getrlimit, &[space, NOWHERE]);
        assert_eq!(bad.ok(), Some(-i64::from(libc::EFAULT)));
    }
}
