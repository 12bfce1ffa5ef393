//! Hooks of the memory map. Every address is ours to choose; in replay the tape's result is
//! taken instead, so that a later version may choose differently.

use std::os::fd::AsRawFd;

use relive_host::addr::PAGE;
use relive_host::layout;

use super::mapped::Mapped;
use super::shown::{self, MapData, Shown};
use super::{Answer, Call, Reply, limits, locks};
use crate::descriptor_limit::Room;
use crate::failure::{Failure, Result};
use crate::machine::machine;
use crate::memory::{Memory, Source, unnamed};
use crate::remarks::{self, Remark};
use crate::space::{self, Region, Traits, pages};
use crate::task::Task;

/// As much memory at a fixed address as sanitizers only want.
const MUCH: u64 = 1 << 34;
const MAP_DENYWRITE: i32 = 0x800;
/// The end of what the kernel gives to a process.
const ADDRESSES: u64 = 0x7fff_ffff_f000;
pub(super) const MAP_FIXED_NOREPLACE: i32 = 0x10_0000;

fn errno(e: i32) -> Result<Reply> {
    Ok(Reply::Value(-i64::from(e)))
}

/// mmap(2).
pub fn mmap(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    let [addr, len, prot, flags, fd, offset] = call.args;
    let (prot, flags, fd) = (prot as u32 & 7, flags as i32, fd as i32);
    if let Some(a) = answer {
        return remap_recorded(task, call, a);
    }
    let Some(len) = pages(len) else {
        return errno(if len == 0 { libc::EINVAL } else { libc::ENOMEM });
    };
    if offset % PAGE != 0
        || !matches!(
            flags & libc::MAP_TYPE,
            libc::MAP_PRIVATE | libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE
        )
    {
        return errno(libc::EINVAL);
    }
    let anonymous = flags & libc::MAP_ANONYMOUS != 0;
    if anonymous && flags & libc::MAP_TYPE == libc::MAP_SHARED_VALIDATE {
        return errno(libc::EINVAL);
    }
    let shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
    // For the trace's copy, until the map is made.
    let _room;
    let file = if anonymous {
        None
    } else {
        _room = Room::for_host(task.mode().traits().keeps);
        match Mapped::open(fd) {
            Ok(f) => Some(f).filter(|f| !f.zeros),
            Err(e) => return errno(e),
        }
    };
    let low = flags & libc::MAP_32BIT != 0
        || prot & space::EXEC != 0
        || flags & MAP_DENYWRITE != 0
        || (!shared && file.as_ref().is_some_and(Mapped::is_elf))
        || reserves_library(call);
    let common = shared && file.as_ref().is_none_or(|f| f.writable);
    if let (Some(f), true) = (&file, shared) {
        let mode = task.mode();
        mode.order()
            .acquire_file(task, call, f.inode, f.writable, f.name())?;
    }
    // A private map shows the trace's copy: what others do to the file later must not be seen
    // through it, for no tape would tell. mmap(2) leaves open whether it is.
    let (shown, copy) = match (&file, task.mode().traits().keeps) {
        (Some(f), true) if shared => (Some(f.shown(offset, offset.saturating_add(len))?), None),
        (Some(f), true) => {
            let (id, copy) = f.copy()?;
            (Some(Shown::Whole(id)), Some(copy))
        }
        _ => (None, None),
    };
    let mut memory = machine().memory();
    let may = locks::may_map(&memory, len, flags)
        .and_then(|()| limits::may_map(task, &memory, (addr, len), prot, flags));
    if let Err(e) = may {
        return errno(e);
    }
    let (start, end) = match barrier(addr, len, prot, flags) {
        Some(part) => part,
        None => match choose(&mut memory.space, addr, len, flags, low) {
            Ok(a) => (a, a + len),
            Err(e) => {
                if e == libc::ENOMEM && len >= MUCH && flags & libc::MAP_FIXED != 0 {
                    remarks::note(Remark::FixedMemory, &task.process.state().exe);
                }
                return errno(e);
            }
        },
    };
    let (name, inode) = file
        .as_ref()
        .map_or((unnamed(), 0), |f| (f.name().into(), f.inode));
    let region = Region {
        start,
        end,
        prot,
        shared,
        common,
        name,
        offset: if file.is_some() { offset } else { 0 },
        inode,
        traits: traits(flags),
    };
    let source = match (&copy, &file) {
        (Some(copy), _) => Source::File(copy.as_raw_fd(), offset),
        (_, Some(f)) => Source::File(f.descriptor(), offset),
        (_, None) => Source::Anon,
    };
    if let Err(e) = memory.map(region, source) {
        return errno(e);
    }
    drop(memory);
    if let (Some(f), Some(shown)) = (&file, shown) {
        let data = MapData {
            shown,
            inode: f.inode,
            name: f.name().as_bytes(),
        };
        data.encode(&mut task.log.extra);
    }
    // A fixed map is where it was asked for, whatever part of it is made.
    let fixed = flags & libc::MAP_FIXED != 0;
    Ok(Reply::Value(if fixed { addr } else { start } as i64))
}

/// What mmap(2) says of a region with its flags.
fn traits(flags: i32) -> Traits {
    let asked = libc::MAP_GROWSDOWN | libc::MAP_ANONYMOUS;
    Traits {
        grows: flags & asked == asked && flags & libc::MAP_TYPE == libc::MAP_PRIVATE,
        locked: flags & libc::MAP_LOCKED != 0,
        ..Traits::default()
    }
}

/// The part to make of a map of inaccessible memory, at a fixed address, that reaches beyond
/// the guest's windows: AddressSanitizer protects the gap in its shadow memory like this. What
/// lies between the windows is the host's and stays as it is.
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

/// The same map again, at the recorded address, from the trace's copy.
fn remap_recorded(task: &Task, call: &Call, answer: &Answer) -> Result<Reply> {
    let [_, len, prot, flags, _, offset] = call.args;
    if (-4095..0).contains(&answer.result) {
        return Ok(Reply::Value(answer.result));
    }
    let prot = prot as u32 & 7;
    let start = answer.result as u64;
    let range = pages(len).and_then(|len| {
        let whole = Some((start, start.checked_add(len)?));
        let fits = whole.filter(|&(from, to)| layout::guest_may_map_range(from, to));
        fits.or_else(|| barrier(start, len, prot, flags as i32))
    });
    let Some((start, end)) = range else {
        return Err(crate::modes::replay::divergence(
            task,
            &format!("{call} = {start:#x}"),
            "an impossible map",
        ));
    };
    let anon = flags as i32 & libc::MAP_ANONYMOUS != 0 || answer.extra.is_empty();
    // A replay of one process alone has nobody to share with but its own copies, which must
    // not see what it writes.
    let shares = flags as i32 & libc::MAP_TYPE != libc::MAP_PRIVATE;
    let shared = shares && !(anon && crate::modes::replay::alone());
    let region = Region {
        start,
        end,
        prot,
        shared,
        common: shared || anon && shares,
        name: unnamed(),
        offset: 0,
        inode: 0,
        traits: traits(flags as i32),
    };
    let (region, source, _file) = if anon {
        (region, Source::Anon, None)
    } else {
        let data = MapData::decode(&answer.extra)?;
        let (file, base) = if shared {
            crate::modes::replay::may_fault_past_end_of_file();
            let end = offset.saturating_add(end - start);
            crate::modes::replay::shared_copy(data.inode, &data.shown, (offset, end))?
        } else {
            (crate::modes::replay::open_copy(&answer.extra)?, 0)
        };
        let region = Region {
            name: String::from_utf8_lossy(data.name).as_ref().into(),
            offset,
            inode: data.inode,
            ..region
        };
        let source = Source::File(file.as_raw_fd(), base + offset);
        (region, source, Some(file))
    };
    machine().memory().map(region, source).map_err(|e| {
        Failure::setup(format!(
            "replaying {call}: the kernel refuses the map (errno {e})"
        ))
    })?;
    Ok(Reply::Value(answer.result))
}

pub(super) fn choose(
    space: &mut space::AddressSpace,
    hint: u64,
    len: u64,
    flags: i32,
    low: bool,
) -> std::result::Result<u64, i32> {
    let end = hint.checked_add(len);
    let fits = |end: Option<u64>| end.is_some_and(|e| layout::guest_may_map_range(hint, e));
    if flags & (libc::MAP_FIXED | MAP_FIXED_NOREPLACE) != 0 {
        if !hint.is_multiple_of(PAGE) {
            return Err(libc::EINVAL);
        }
        if !fits(end) {
            return Err(if hint < layout::WINDOW_START {
                libc::EPERM
            } else {
                libc::ENOMEM
            });
        }
        if flags & MAP_FIXED_NOREPLACE != 0 && !space.is_free(hint, hint + len) {
            return Err(libc::EEXIST);
        }
        return Ok(hint);
    }
    let hint_page = hint & !(PAGE - 1);
    if hint_page != 0 && hint_page == hint && fits(end) && space.is_free(hint, hint + len) {
        return Ok(hint);
    }
    space
        .find_free(len, low)
        .or_else(|| {
            if low {
                space.find_free(len, false)
            } else {
                None
            }
        })
        .ok_or(libc::ENOMEM)
}

/// mincore(2): to the kernel the whole window is mapped.
pub fn mincore(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    Ok(Reply::Value(match answer {
        Some(a) => a.result,
        None if has_hole(call) => -i64::from(libc::ENOMEM),
        None => super::live::generic(task, call),
    }))
}

/// msync(2): the same, but what is mapped is written.
pub fn msync(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    if let Some(a) = answer {
        return Ok(Reply::Value(a.result));
    }
    if call.int(2) & libc::MS_INVALIDATE != 0 && has_locked(call) {
        return errno(libc::EBUSY);
    }
    let result = super::live::generic(task, call);
    let hole = result == 0 && has_hole(call);
    Ok(Reply::Value(if hole {
        -i64::from(libc::ENOMEM)
    } else {
        result
    }))
}

/// Whether a range that msync(2) would take has locked parts.
fn has_locked(call: &Call) -> bool {
    const KNOWN: i32 = libc::MS_ASYNC | libc::MS_INVALIDATE | libc::MS_SYNC;
    let [start, len, ..] = call.args;
    let flags = call.int(2);
    let wrong = flags & !KNOWN != 0 || flags & libc::MS_ASYNC != 0 && flags & libc::MS_SYNC != 0;
    let end = pages(len).and_then(|len| start.checked_add(len));
    match end.filter(|_| start % PAGE == 0 && !wrong) {
        Some(end) => {
            let memory = machine().memory();
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
fn has_hole(call: &Call) -> bool {
    let [start, len, ..] = call.args;
    let range = pages(len).and_then(|len| Some((start, start.checked_add(len)?)));
    match range.filter(|_| start % PAGE == 0) {
        Some((start, end)) => !machine().memory().space.is_mapped(start, end),
        None => false,
    }
}

/// munmap(2).
pub fn munmap(_: &mut Task, call: &Call, _: Option<&Answer>) -> Result<Reply> {
    let [start, len, ..] = call.args;
    let (Some(len), true) = (pages(len), start % PAGE == 0) else {
        return errno(libc::EINVAL);
    };
    let Some(end) = start.checked_add(len).filter(|&end| end <= ADDRESSES) else {
        return errno(libc::EINVAL);
    };
    release(&mut machine().memory(), start, end);
    Ok(Reply::Value(0))
}

/// Unmaps what is mapped in a range; outside the window that is nothing.
fn release(memory: &mut Memory, start: u64, end: u64) {
    let overlapping = memory.space.overlapping(start, end);
    let parts: Vec<(u64, u64)> = overlapping
        .map(|r| (r.start.max(start), r.end.min(end)))
        .collect();
    for (s, e) in parts {
        memory.unmap(s, e);
    }
}

/// mprotect(2).
pub fn mprotect(_: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    let [start, len, prot, ..] = call.args;
    if answer.is_some_and(|a| a.result == -i64::from(libc::EACCES)) {
        // The file may forbid it, and in replay its copy would not.
        return errno(libc::EACCES);
    }
    let (down, up) = (libc::PROT_GROWSDOWN as u64, libc::PROT_GROWSUP as u64);
    // Older recordings did not look at what grows.
    let accepted = answer.is_some_and(|a| a.result == 0);
    if start % PAGE != 0 || prot & (down | up) == down | up && !accepted {
        return errno(libc::EINVAL);
    }
    let Some(len) = pages(len) else {
        return if len == 0 {
            Ok(Reply::Value(answer.map_or(0, |a| a.result)))
        } else {
            errno(libc::ENOMEM)
        };
    };
    let Some(end) = start.checked_add(len) else {
        return errno(libc::ENOMEM);
    };
    if prot & !(down | up | 0xf) != 0 {
        return errno(libc::EINVAL);
    }
    let mut memory = machine().memory();
    let start = match prot & (down | up) {
        0 => start,
        _ if accepted && (prot & up != 0 || !grows_at(&memory, start, end)) => start,
        way => match grown_from(&memory, start, end, way == down) {
            Ok(from) => from,
            Err(e) => return errno(e),
        },
    };
    let result = memory.protect(start, end, prot as u32 & 7);
    Ok(Reply::Value(result.map_or_else(|e| -i64::from(e), |()| 0)))
}

/// Whether a region grows downwards, as the stack of the first thread does.
fn grows_at(memory: &Memory, start: u64, end: u64) -> bool {
    let region = memory.space.overlapping(start, end).next();
    region.is_some_and(|r| r.traits.grows || &*r.name == crate::loader::STACK_NAME)
}

/// Where a change of protection begins that is meant for a region with all that it grows by
/// (mprotect(2), `PROT_GROWSDOWN`). None grows upwards.
fn grown_from(memory: &Memory, start: u64, end: u64, down: bool) -> std::result::Result<u64, i32> {
    let region = memory.space.overlapping(start, end).next();
    let region = region.filter(|r| down || r.start <= start);
    match region.ok_or(libc::ENOMEM)?.start {
        from if down && grows_at(memory, start, end) => Ok(from),
        _ => Err(libc::EINVAL),
    }
}

/// brk(2).
pub fn brk(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    const MOST: u64 = 1 << 40;
    let mut memory = machine().memory();
    let (base, now) = memory.space.brk;
    let want = call.args[0];
    let refused = answer.is_some_and(|a| a.result != want as i64);
    if want < base || want > base + MOST || refused {
        return Ok(Reply::Value(now as i64));
    }
    let (flags, writes) = (libc::MAP_PRIVATE, space::READ | space::WRITE);
    if want > now
        && answer.is_none()
        && limits::may_map(task, &memory, (0, want - now), writes, flags).is_err()
    {
        return Ok(Reply::Value(now as i64));
    }
    let up = |a: u64| (a + PAGE - 1) & !(PAGE - 1);
    let (old_end, new_end) = (up(now), up(want));
    if new_end > old_end {
        let region = Region {
            start: old_end,
            end: new_end,
            prot: space::READ | space::WRITE,
            shared: false,
            common: false,
            name: "[heap]".into(),
            offset: 0,
            inode: 0,
            traits: Traits::default(),
        };
        if !memory.space.is_free(old_end, new_end) || memory.map(region, Source::Anon).is_err() {
            return Ok(Reply::Value(now as i64));
        }
    } else if new_end < old_end {
        memory.unmap(new_end, old_end);
    }
    memory.space.brk = (base, want);
    Ok(Reply::Value(want as i64))
}

/// mremap(2).
pub fn mremap(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    let [old, old_len, new_len, flags, fixed, _] = call.args;
    let flags = flags as i32;
    if let Some(a) = answer.filter(|a| (-4095..0).contains(&a.result)) {
        return Ok(Reply::Value(a.result));
    }
    let (moves, keeps) = (libc::MREMAP_MAYMOVE, libc::MREMAP_DONTUNMAP);
    let copies = old_len == 0 && flags & moves != 0 && flags & keeps == 0;
    let (Some(old_len), Some(new_len)) = (pages(old_len).or(copies.then_some(0)), pages(new_len))
    else {
        return errno(libc::EINVAL);
    };
    if old % PAGE != 0
        || flags & !(moves | libc::MREMAP_FIXED | keeps) != 0
        || flags & keeps != 0 && (flags & moves == 0 || old_len != new_len || fixed % PAGE != 0)
    {
        return errno(libc::EINVAL);
    }
    let mut memory = machine().memory();
    let (Some(old_end), Some(grown)) = (old.checked_add(old_len), old.checked_add(new_len)) else {
        return errno(libc::EINVAL);
    };
    let Some(region) = memory.space.at(old).cloned() else {
        return errno(libc::EFAULT);
    };
    if new_len <= old_len && flags & (libc::MREMAP_FIXED | keeps) == 0 && old_len != 0 {
        // What is left is not looked at, and may have holes.
        release(&mut memory, grown, old_end);
        return Ok(Reply::Value(old as i64));
    }
    if region.end < old_end && !memory.space.is_mapped(old, old_end) {
        return errno(libc::EFAULT);
    }
    if copies && !region.common && !region.shared {
        return errno(libc::EINVAL);
    }
    // See `remap_recorded`: a replay of one process alone has such memory for itself.
    if (copies || flags & keeps != 0) && region.common && !region.shared {
        let what = "a second address of shared memory without a file, in one process by itself";
        return Err(super::unsupported(call, what));
    }
    let more = new_len.saturating_sub(if flags & keeps != 0 { 0 } else { old_len });
    if answer.is_none() && more != 0 {
        let kind = if region.shared {
            libc::MAP_SHARED
        } else {
            libc::MAP_PRIVATE
        };
        if let Err(e) = limits::may_map(task, &memory, (0, more), region.prot, kind) {
            return errno(e);
        }
    }
    let target = if flags & libc::MREMAP_FIXED != 0 {
        let fits = fixed % PAGE == 0
            && fixed
                .checked_add(new_len)
                .is_some_and(|e| layout::guest_may_map_range(fixed, e));
        if flags & libc::MREMAP_MAYMOVE == 0 || !fits || (fixed < old_end && old < fixed + new_len)
        {
            return errno(libc::EINVAL);
        }
        if !memory.space.is_free(fixed, fixed + new_len) {
            memory.unmap(fixed, fixed + new_len);
        }
        fixed
    } else if let Some(a) = answer.filter(|a| !(-4095..0).contains(&a.result)) {
        a.result as u64
    } else if flags & keeps == 0
        && !copies
        && (new_len <= old_len
            || (layout::guest_may_map_range(old, grown) && memory.space.is_free(old_end, grown)))
    {
        old
    } else if flags & libc::MREMAP_MAYMOVE == 0 {
        return errno(libc::ENOMEM);
    } else {
        match memory.space.find_free(new_len, false) {
            Some(a) => a,
            None => return errno(libc::ENOMEM),
        }
    };
    // What the map shows more of the file than before.
    let before = if copies { 0 } else { old_len.min(new_len) };
    let offset = region.offset + (old - region.start);
    if let Some(answer) = answer.filter(|_| region.shared) {
        let part = (
            offset.saturating_add(before),
            offset.saturating_add(new_len),
        );
        crate::modes::replay::shared_grows(region.inode, shown::grown(answer)?.as_ref(), part)?;
    }
    let offset = offset.saturating_add(before);
    let more = (target + before, target + new_len);
    if copies || flags & keeps != 0 {
        let range = (target, target + new_len);
        return match memory.remap_beside(old, old_len, range) {
            Ok(()) => {
                drop(memory);
                shown::grows(task, &region, offset, more)?;
                Ok(Reply::Value(target as i64))
            }
            Err(e) => errno(e),
        };
    }
    let mut from_end = old_end;
    if new_len < old_len && target != old {
        memory.unmap(old + new_len, old_end);
        from_end = old + new_len;
    }
    match memory.remap((old, from_end), (target, target + new_len)) {
        Ok(()) => {
            drop(memory);
            shown::grows(task, &region, offset, more)?;
            Ok(Reply::Value(target as i64))
        }
        Err(e) => errno(e),
    }
}
