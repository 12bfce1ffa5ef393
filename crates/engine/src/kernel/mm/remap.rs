//! mremap(2). It must never map more of a file than the mode has memory for.

use relive_host::addr::PAGE;
use relive_host::layout;

use super::place::Held;
use super::unmap::release;
use crate::call::Call;
use crate::failure::{CallResult, Result};
use crate::kernel::operation::{Operation, Outcome, Prepared};
use crate::kernel::refuse::unsupported;
use crate::kernel::{limits, shown};
use crate::memory::Memory;
use crate::space::{Region, pages};
use crate::task::Task;

/// mremap(2).
pub struct Remap;

/// A map's change, as the guest asks for it: lengths are of whole pages.
pub struct RemapPlan {
    old: u64,
    old_len: u64,
    new_len: u64,
    flags: i32,
    fixed: u64,
    /// The new place must stay free until the map is there.
    held: Held,
}

impl RemapPlan {
    /// The arguments of a call; `None`: they are invalid.
    fn of(call: &Call) -> Option<Self> {
        let [old, old_len, new_len, flags, fixed, _] = call.args;
        let flags = flags as i32;
        let (moves, keeps) = (libc::MREMAP_MAYMOVE, libc::MREMAP_DONTUNMAP);
        let copies = old_len == 0 && flags & moves != 0 && flags & keeps == 0;
        let plan = Self {
            old,
            old_len: pages(old_len).or(copies.then_some(0))?,
            new_len: pages(new_len)?,
            flags,
            fixed,
            held: Held::default(),
        };
        let valid = old % PAGE == 0
            && flags & !(moves | libc::MREMAP_FIXED | keeps) == 0
            && (!plan.keeps()
                || plan.may_move() && plan.old_len == plan.new_len && fixed % PAGE == 0)
            && old.checked_add(plan.old_len).is_some()
            && old.checked_add(plan.new_len).is_some();
        valid.then_some(plan)
    }

    fn may_move(&self) -> bool {
        self.flags & libc::MREMAP_MAYMOVE != 0
    }

    fn is_fixed(&self) -> bool {
        self.flags & libc::MREMAP_FIXED != 0
    }

    /// The old range stays mapped, without its pages.
    fn keeps(&self) -> bool {
        self.flags & libc::MREMAP_DONTUNMAP != 0
    }

    /// The same memory gets a second place.
    fn copies(&self) -> bool {
        self.old_len == 0
    }

    fn old_end(&self) -> u64 {
        self.old + self.old_len
    }

    /// The end that the map would have where it is.
    fn grown(&self) -> u64 {
        self.old + self.new_len
    }

    /// The end of the old range is unmapped; nothing else changes.
    fn shrinks(&self) -> bool {
        self.new_len <= self.old_len && !self.is_fixed() && !self.keeps() && !self.copies()
    }

    /// The region that is to change.
    ///
    /// # Errors
    /// The errno of mremap(2).
    fn region(&self, memory: &Memory) -> std::result::Result<Region, i32> {
        let region = memory.space.at(self.old).cloned().ok_or(libc::EFAULT)?;
        if self.shrinks() {
            // The part that stays is not checked, and may have holes.
            return Ok(region);
        }
        let end = self.old_end();
        if region.end < end && !memory.space.is_mapped(self.old, end) {
            return Err(libc::EFAULT);
        }
        if self.copies() && !region.common && !region.shared {
            return Err(libc::EINVAL);
        }
        Ok(region)
    }

    /// Whether shared memory gets a second address.
    fn shows_twice(&self, memory: &Memory) -> bool {
        let more = self.new_len.saturating_sub(self.old_len);
        let beside = self.copies() || self.keeps();
        let space = &memory.space;
        let shows = |region: Region| space.would_show_again(&region, self.old_end(), more, beside);
        self.region(memory).is_ok_and(shows)
    }

    /// Chooses the place of the changed map.
    ///
    /// # Errors
    /// The errno of mremap(2).
    fn place(&mut self, task: &Task) -> std::result::Result<u64, i32> {
        let mut held = std::mem::take(&mut self.held);
        let memory = held.lock(task.machine());
        let place = self.place_in(task, memory).and_then(|at| {
            task.may_change(memory, self.old, self.old_end())?;
            task.may_change(memory, at, at.saturating_add(self.new_len))?;
            Ok(at)
        });
        self.held = held;
        place
    }

    fn place_in(&self, task: &Task, memory: &mut Memory) -> std::result::Result<u64, i32> {
        let region = self.region(memory)?;
        if self.shrinks() {
            return Ok(self.old);
        }
        let gone = if self.keeps() { 0 } else { self.old_len };
        let more = self.new_len.saturating_sub(gone);
        if more != 0 {
            let kind = if region.shared {
                libc::MAP_SHARED
            } else {
                libc::MAP_PRIVATE
            };
            limits::may_map(task, memory, (0, more), region.prot, kind)?;
        }
        if self.is_fixed() {
            return self.fixed_place();
        }
        let (behind, grown) = (self.old_end(), self.grown());
        let stays = self.new_len <= self.old_len
            || (layout::guest_may_map_range(self.old, grown)
                && memory.space.is_free(behind, grown));
        if stays && !self.keeps() && !self.copies() {
            return Ok(self.old);
        }
        if !self.may_move() {
            return Err(libc::ENOMEM);
        }
        memory
            .space
            .find_free(self.new_len, false)
            .ok_or(libc::ENOMEM)
    }

    /// The place that the guest names.
    ///
    /// # Errors
    /// The errno of mremap(2).
    fn fixed_place(&self) -> std::result::Result<u64, i32> {
        let fixed = self.fixed;
        let end = fixed.checked_add(self.new_len);
        let fits =
            |&end: &u64| fixed.is_multiple_of(PAGE) && layout::guest_may_map_range(fixed, end);
        match end.filter(fits) {
            Some(end) if self.may_move() && (fixed >= self.old_end() || self.old >= end) => {
                Ok(fixed)
            }
            _ => Err(libc::EINVAL),
        }
    }

    /// Changes the map; its place is free, or the map's own.
    ///
    /// # Errors
    /// The errno of mremap(2), or the translations cannot follow.
    fn change(&self, memory: &mut Memory, target: u64) -> CallResult<()> {
        let range = (target, target + self.new_len);
        if self.copies() || self.keeps() {
            return memory.remap_beside(self.old, self.old_len, range);
        }
        let mut end = self.old_end();
        if self.new_len < self.old_len && target != self.old {
            memory.unmap(self.grown(), end)?;
            end = self.grown();
        }
        memory.remap((self.old, end), range)
    }
}

impl Operation for Remap {
    type Plan = RemapPlan;

    fn prepare(_: &mut Task, call: &Call) -> Prepared<RemapPlan> {
        RemapPlan::of(call).ok_or(-i64::from(libc::EINVAL))
    }

    fn perform(task: &mut Task, _: &Call, plan: &mut RemapPlan) -> Result<i64> {
        if plan.is_fixed() && !plan.may_move() {
            return Ok(-i64::from(libc::EINVAL));
        }
        let shows_twice = plan.shows_twice(&task.machine().memory());
        if shows_twice {
            task.mode().order().takes_turns(task)?;
        }
        let place = plan.place(task);
        Ok(place.map_or_else(|e| -i64::from(e), |at| at as i64))
    }

    fn apply(
        task: &mut Task,
        call: &Call,
        mut plan: RemapPlan,
        outcome: &Outcome<'_>,
    ) -> Result<i64> {
        if !outcome.is_good() {
            return Ok(outcome.result);
        }
        let mut held = std::mem::take(&mut plan.held);
        let memory = held.lock(task.machine());
        let region = match plan.region(memory) {
            Ok(region) => region,
            Err(e) => return Ok(-i64::from(e)),
        };
        if plan.shrinks() {
            release(memory, plan.grown(), plan.old_end())?;
            return Ok(plan.old as i64);
        }
        // See `Mode::content`: a replay of one process alone has such memory for itself.
        if (plan.copies() || plan.keeps()) && region.common && !region.shared {
            let what = "a second address of shared memory without a file, in one process by itself";
            return Err(unsupported(call, what));
        }
        let mut target = outcome.result as u64;
        if plan.is_fixed() {
            target = match plan.fixed_place() {
                Ok(fixed) => fixed,
                Err(e) => return Ok(-i64::from(e)),
            };
            if !memory.space.is_free(target, target + plan.new_len) {
                memory.unmap(target, target + plan.new_len)?;
            }
        }
        let end = target.checked_add(plan.new_len);
        if !end.is_some_and(|end| layout::guest_may_map_range(target, end)) {
            held.release();
            let expected = format!("{call} = {target:#x}");
            return Err(task.mode().diverged(task, &expected, "an impossible map"));
        }
        // The part of the file that the map did not show before.
        let before = plan.old_len.min(plan.new_len);
        let offset = region.offset + (plan.old - region.start);
        if region.shared {
            let shown = shown::grown(outcome.extra(task))?;
            let part = (
                offset.saturating_add(before),
                offset.saturating_add(plan.new_len),
            );
            let mode = task.mode();
            mode.shows_file(region.inode, shown.as_ref(), part)?;
        }
        if let Err(e) = plan.change(memory, target) {
            return e.result();
        }
        held.release();
        let more = (target + before, target + plan.new_len);
        shown::grows(task, &region, offset.saturating_add(before), more)?;
        Ok(target as i64)
    }
}
