//! brk(2): the heap, at the place that the loader has given it. It must never reach into other maps.

use relive_host::addr::PAGE;

use super::place::Held;
use crate::call::Call;
use crate::failure::{Result, answered};
use crate::kernel::limits;
use crate::kernel::operation::{Operation, Outcome, Prepared};
use crate::memory::{Memory, Source};
use crate::space::{READ, Region, RegionTraits, WRITE};
use crate::task::Task;

/// The heap's greatest size.
const MOST: u64 = 1 << 40;

/// brk(2).
pub struct Break;

/// The end that the heap shall have.
pub struct HeapPlan {
    end: u64,
    /// The range behind the heap must stay free until the heap has grown.
    held: Held,
}

impl Operation for Break {
    type Plan = HeapPlan;

    fn prepare(_: &mut Task, call: &Call) -> Prepared<HeapPlan> {
        let held = Held::default();
        let end = call.args[0];
        Ok(HeapPlan { end, held })
    }

    fn perform(task: &mut Task, _: &Call, plan: &mut HeapPlan) -> Result<i64> {
        let end = plan.end;
        let memory = plan.held.lock(task.machine());
        let (base, now) = memory.space.brk;
        // An end that the heap cannot have must not come to be the result: some look like errors.
        if !can_end(base, end) {
            return Ok(now as i64);
        }
        let grows = end.saturating_sub(now);
        let may = grows == 0 || {
            let (flags, prot) = (libc::MAP_PRIVATE, READ | WRITE);
            limits::may_map(task, memory, (0, grows), prot, flags).is_ok()
        };
        let (low, high) = (now.min(end) & !(PAGE - 1), now.max(end));
        Ok(match (may, task.may_change(memory, low, high)) {
            (true, Err(e)) => -i64::from(e),
            (true, Ok(())) => end as i64,
            (false, _) => now as i64,
        })
    }

    fn apply(task: &mut Task, _: &Call, mut plan: HeapPlan, outcome: &Outcome<'_>) -> Result<i64> {
        if !outcome.is_good() {
            return Ok(outcome.result);
        }
        let memory = plan.held.lock(task.machine());
        let (base, now) = memory.space.brk;
        let granted = outcome.result == plan.end as i64 && moves(memory, plan.end)?;
        if granted {
            memory.space.brk = (base, plan.end);
        }
        Ok(if granted { plan.end } else { now } as i64)
    }
}

/// Whether a heap that begins at `base` may end there.
fn can_end(base: u64, end: u64) -> bool {
    (base..=base + MOST).contains(&end)
}

/// Maps or unmaps the range between the heap's end and its new one. Returns whether the heap can have
/// that end.
fn moves(memory: &mut Memory, end: u64) -> Result<bool> {
    let (base, now) = memory.space.brk;
    if !can_end(base, end) {
        return Ok(false);
    }
    let up = |a: u64| (a + PAGE - 1) & !(PAGE - 1);
    let (old_end, new_end) = (up(now), up(end));
    if new_end > old_end {
        let region = Region {
            start: old_end,
            end: new_end,
            prot: READ | WRITE,
            shared: false,
            common: false,
            name: "[heap]".into(),
            offset: 0,
            inode: 0,
            copy: None,
            traits: RegionTraits::default(),
        };
        return Ok(memory.space.is_free(old_end, new_end)
            && answered(memory.map(region, Source::Anon))?.is_ok());
    }
    if new_end < old_end {
        memory.unmap(new_end, old_end)?;
    }
    Ok(true)
}
