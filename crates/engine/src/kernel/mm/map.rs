//! mmap(2). The mode brings the map's content ([`crate::memory::content`]); a recording maps the
//! trace's copy of a file where it can. It must never map a file of the guest's in a replay.

use std::os::fd::AsRawFd;

use relive_host::addr::PAGE;
use relive_host::{layout, sys};

use super::place::{Held, choose};
use crate::call::Call;
use crate::descriptor_limit::Room;
use crate::failure::{Result, answered};
use crate::kernel::mapped::Mapped;
use crate::kernel::operation::{Operation, Outcome, Prepared};
use crate::kernel::{limits, locks};
use crate::machine::Machine;
use crate::map_names::unnamed;
use crate::memory::Source;
use crate::memory::content::{ContentName, ContentRequest, KeptContent, Opened};
use crate::mode::FileUse;
use crate::remarks::{self, Remark};
use crate::sharing::changes::FileRange;
use crate::space::{self, Region, RegionTraits, pages};
use crate::task::Task;

/// A size of memory at a fixed address that only sanitizers ask for.
const MUCH: u64 = 1 << 34;
const MAP_DENYWRITE: i32 = 0x800;
/// Flags of maps that the kernel takes for all files.
const KNOWN_BY_ALL: i32 = libc::MAP_TYPE
    | libc::MAP_FIXED
    | libc::MAP_FIXED_NOREPLACE
    | libc::MAP_ANONYMOUS
    | libc::MAP_32BIT
    | MAP_DENYWRITE
    | libc::MAP_EXECUTABLE
    | libc::MAP_GROWSDOWN
    | libc::MAP_LOCKED
    | libc::MAP_NORESERVE
    | libc::MAP_POPULATE
    | libc::MAP_NONBLOCK
    | libc::MAP_STACK
    | libc::MAP_HUGETLB;
/// The usual size of a large page.
const LARGE_PAGE: u64 = 2 << 20;

/// mmap(2).
pub struct Map;

/// A map, as the guest asks for it.
#[derive(Default)]
pub struct MapPlan {
    addr: u64,
    /// Whole pages.
    len: u64,
    prot: u32,
    flags: i32,
    fd: i32,
    offset: u64,
    /// The file, where the kernel was asked.
    opened: Option<Opened>,
    /// For the trace's copy of the file.
    room: Option<Room>,
    /// The place of the map must stay free until it is made.
    held: Held,
}

impl MapPlan {
    /// The arguments of a call.
    fn of(call: &Call) -> std::result::Result<Self, i32> {
        let [addr, len, prot, flags, fd, offset] = call.args;
        let Some(whole) = pages(len) else {
            return Err(if len == 0 { libc::EINVAL } else { libc::ENOMEM });
        };
        if offset % PAGE != 0 {
            return Err(libc::EINVAL);
        }
        Ok(Self {
            addr,
            len: whole,
            prot: prot as u32 & 7,
            flags: flags as i32,
            fd: fd as i32,
            offset,
            ..Self::default()
        })
    }

    fn is_anonymous(&self) -> bool {
        self.flags & libc::MAP_ANONYMOUS != 0
    }

    fn is_shared(&self) -> bool {
        self.flags & libc::MAP_TYPE != libc::MAP_PRIVATE
    }

    /// Whether the kernel knows this type of map. A replay does not ask: older recordings made maps of
    /// unknown types.
    fn has_known_type(&self) -> bool {
        match self.flags & libc::MAP_TYPE {
            libc::MAP_PRIVATE | libc::MAP_SHARED => true,
            libc::MAP_SHARED_VALIDATE => !self.is_anonymous(),
            _ => false,
        }
    }

    /// The kernel's refusal of memory in large pages, which the map does not get here.
    fn no_large_pages(&self) -> Option<i32> {
        if !self.is_anonymous() || self.flags & libc::MAP_HUGETLB == 0 {
            return None;
        }
        let placed = libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE | libc::MAP_POPULATE;
        let flags = (self.flags & !placed) as u32;
        let args = [0, self.len, self.prot.into(), flags.into(), u64::MAX, 0];
        // SAFETY: a new map anywhere, which nothing uses.
        let at = unsafe { sys::syscall(libc::SYS_mmap as u64, args) };
        if at < 0 {
            return Some(-at as i32);
        }
        let size = match self.flags as u32 >> libc::MAP_HUGE_SHIFT {
            0 => LARGE_PAGE,
            shift => 1 << shift,
        };
        let args = [at as u64, self.len.next_multiple_of(size), 0, 0, 0, 0];
        // SAFETY: the map made above.
        unsafe { sys::syscall(libc::SYS_munmap as u64, args) };
        None
    }

    /// The kernel's refusal of flags that not every file takes: of `MAP_SYNC`, and of any where it is asked to look
    /// (`MAP_SHARED_VALIDATE`).
    fn unknown_flags(&self) -> Option<i32> {
        let looks = match self.flags & libc::MAP_TYPE {
            libc::MAP_SHARED_VALIDATE => !KNOWN_BY_ALL,
            _ => libc::MAP_SYNC,
        };
        if self.is_anonymous() || self.flags & looks == 0 {
            return None;
        }
        let flags = (self.flags & !(libc::MAP_FIXED | libc::MAP_FIXED_NOREPLACE)) as u32;
        let (fd, none) = (self.fd as u64, libc::PROT_NONE as u64);
        let args = [0, self.len, none, flags.into(), fd, self.offset];
        // SAFETY: a new map anywhere, which nothing uses.
        let at = unsafe { sys::syscall(libc::SYS_mmap as u64, args) };
        if at < 0 {
            return Some(-at as i32);
        }
        // SAFETY: the map made above.
        unsafe { sys::syscall(libc::SYS_munmap as u64, [at as u64, self.len, 0, 0, 0, 0]) };
        None
    }

    /// The file that is mapped, if the map has one; /dev/zero is anonymous memory.
    fn open(&mut self, machine: &Machine) -> std::result::Result<Option<Mapped>, i32> {
        if self.is_anonymous() {
            return Ok(None);
        }
        self.room = Some(Room::for_host(machine.mode.traits().keeps));
        let file = Mapped::open(self.fd)?;
        Ok(Some(file).filter(|f| !f.zeros))
    }

    /// Whether the map must lie low, where code can run.
    fn is_low(&self, call: &Call, file: Option<&Mapped>) -> bool {
        self.flags & libc::MAP_32BIT != 0
            || self.prot & space::EXEC != 0
            || self.flags & MAP_DENYWRITE != 0
            || (!self.is_shared() && file.is_some_and(Mapped::is_elf))
            || reserves_library(call)
    }

    /// Chooses the place, which stays free as long as the plan holds it.
    fn choose(&mut self, task: &Task, low: bool) -> std::result::Result<u64, i32> {
        let (addr, len, prot, flags) = (self.addr, self.len, self.prot, self.flags);
        let memory = self.held.lock(task.machine());
        locks::may_map(memory, len, flags)?;
        limits::may_map(task, memory, (addr, len), prot, flags)?;
        if barrier(addr, len, prot, flags).is_some() {
            // The result is the address asked for, though only a part of the map is made.
            return Ok(addr);
        }
        let start = choose(&mut memory.space, addr, len, flags, low).inspect_err(|&e| {
            if e == libc::ENOMEM && len >= MUCH && flags & libc::MAP_FIXED != 0 {
                remarks::note(Remark::FixedMemory, &task.process.state().exe);
            }
        })?;
        task.may_change(memory, start, start + len)?;
        Ok(start)
    }

    /// The part of the map at `start` that is made; `None`: such a map is impossible.
    fn part(&self, start: u64) -> Option<(u64, u64)> {
        let end = start.checked_add(self.len)?;
        if layout::guest_may_map_range(start, end) {
            return Some((start, end));
        }
        barrier(start, self.len, self.prot, self.flags)
    }
}

impl Operation for Map {
    type Plan = MapPlan;

    fn prepare(_: &mut Task, call: &Call) -> Prepared<MapPlan> {
        MapPlan::of(call).map_err(|e| -i64::from(e))
    }

    fn perform(task: &mut Task, call: &Call, plan: &mut MapPlan) -> Result<i64> {
        if !plan.has_known_type() {
            return Ok(-i64::from(libc::EINVAL));
        }
        let file = match plan.open(task.machine()) {
            Ok(file) => file,
            Err(e) => return Ok(-i64::from(e)),
        };
        if let Some(errno) = plan.unknown_flags().or_else(|| plan.no_large_pages()) {
            return Ok(-i64::from(errno));
        }
        let low = plan.is_low(call, file.as_ref());
        if let (Some(f), true) = (&file, plan.is_shared()) {
            let used = FileUse {
                part: FileRange {
                    file: f.inode,
                    start: plan.offset,
                    end: plan.offset.saturating_add(plan.len),
                },
                writes: f.writable,
                name: f.name(),
            };
            task.mode().order().acquire_file(task, call, &used)?;
        }
        let (shown, opened) = match &file {
            None => (None, None),
            Some(f) => {
                let (shown, opened) = open(task, plan, f)?;
                (shown, Some(opened))
            }
        };
        Ok(match plan.choose(task, low) {
            Ok(start) => {
                if let Some(f) = &file {
                    ContentName::note(&mut task.log.extra, shown.as_ref(), f.inode, f.name());
                }
                plan.opened = opened;
                start as i64
            }
            Err(e) => -i64::from(e),
        })
    }

    fn apply(
        task: &mut Task,
        call: &Call,
        mut plan: MapPlan,
        outcome: &Outcome<'_>,
    ) -> Result<i64> {
        if !outcome.is_good() {
            return Ok(outcome.result);
        }
        let start = outcome.result as u64;
        let Some((start, end)) = plan.part(start) else {
            let expected = format!("{call} = {start:#x}");
            return Err(task.mode().diverged(task, &expected, "an impossible map"));
        };
        let named = match plan.is_anonymous() {
            true => None,
            false => ContentName::of(outcome.extra(task))?,
        };
        let (name, inode, offset) = match &named {
            Some(n) => ((&*n.path()).into(), n.identity(), plan.offset),
            None => (unnamed(), 0, 0),
        };
        let copy = named.as_ref().and_then(ContentName::copy);
        let content = task.mode().content(ContentRequest {
            shared: plan.is_shared(),
            named,
            offset,
            len: Some(plan.len),
            opened: plan.opened.take(),
        })?;
        let region = Region {
            start,
            end,
            prot: plan.prot,
            shared: content.shared,
            common: content.common,
            name,
            offset,
            inode,
            copy: copy.filter(|_| !content.shared),
            traits: traits(plan.flags),
        };
        let mapped = plan.held.lock(task.machine()).map(region, content.source);
        if let Err(e) = answered(mapped)? {
            task.log.extra.clear();
            return outcome.refused(call, e);
        }
        Ok(outcome.result)
    }
}

/// The file for the map, and the content that the trace keeps: for a shared map, the part that the map
/// shows. A private map shows the trace's copy: later changes to the file must not be seen through it,
/// as no tape would have them. mmap(2) leaves open whether they are.
fn open(task: &Task, plan: &MapPlan, file: &Mapped) -> Result<(Option<KeptContent>, Opened)> {
    let (shown, copy) = match (task.traits().keeps, plan.is_shared()) {
        (false, _) => (None, None),
        (true, true) => {
            let end = plan.offset.saturating_add(plan.len);
            (Some(file.shown(task.machine(), plan.offset, end)?), None)
        }
        (true, false) => {
            let (id, copy) = file.copy(task.machine())?;
            (Some(KeptContent::Whole(id)), Some(copy))
        }
    };
    let descriptor = copy.as_ref().map_or(file.descriptor(), AsRawFd::as_raw_fd);
    let opened = Opened {
        source: Source::File(descriptor, plan.offset),
        writable: file.writable,
        file: copy,
    };
    Ok((shown, opened))
}

/// The traits of a region by the flags of mmap(2).
fn traits(flags: i32) -> RegionTraits {
    let asked = libc::MAP_GROWSDOWN | libc::MAP_ANONYMOUS;
    RegionTraits {
        grows: flags & asked == asked && flags & libc::MAP_TYPE == libc::MAP_PRIVATE,
        locked: flags & libc::MAP_LOCKED != 0,
        ..RegionTraits::default()
    }
}

/// The part to make of a map of inaccessible memory, at a fixed address, that reaches beyond
/// the guest's windows: AddressSanitizer protects the gap in its shadow memory like this. The memory
/// between the windows is the host's and stays as it is.
fn barrier(start: u64, len: u64, prot: u32, flags: i32) -> Option<(u64, u64)> {
    const ASKED: i32 = libc::MAP_FIXED | libc::MAP_ANONYMOUS | libc::MAP_PRIVATE;
    let end = start.checked_add(len)?;
    (flags & (ASKED | libc::MAP_TYPE) == ASKED
        && prot == 0
        && (layout::ANNEX_END..layout::MIDDLE_START).contains(&start)
        && layout::guest_may_map_range(layout::MIDDLE_START, end))
    .then_some((layout::MIDDLE_START, end))
}

/// Whether ld.so reserves room for a library that wants more alignment than a page: nothing
/// else asks for inaccessible memory so plainly and with the library's own, odd length.
/// Stacks, heaps and the arenas of allocators round, and have more flags.
fn reserves_library(call: &Call) -> bool {
    let [addr, len, prot, flags, ..] = call.args;
    let plain = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    (addr, prot, flags) == (0, libc::PROT_NONE as u64, plain) && !len.is_multiple_of(PAGE)
}
