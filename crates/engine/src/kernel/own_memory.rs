//! The program's own memory as a file: `/proc/self/mem` by whatever name or descriptor, and
//! process_vm_readv(2) and process_vm_writev(2) of itself.
//!
//! The descriptor is the kernel's. To the kernel that memory is the host's as well, so what is read
//! and written is cut here to what the guest's map has; the rest is done as the kernel does it
//! (fs/proc/base.c, `mem_rw`), piece by piece. A replay has no such file: what was read is on the
//! tape, and what was written is taken from the guest's buffers once more.

use std::sync::atomic::{AtomicBool, Ordering};

use relive_host::{GuestAddr, addr::PAGE, copy, layout, sys};
use relive_kabi::{Arg, At};

use super::live::generic;
use super::operation::{Operation, Outcome, Prepared};
use super::{Call, refuse};
use crate::failure::Result;
use crate::machine::machine;
use crate::task::Task;

const EFAULT: i64 = -(libc::EFAULT as i64);
const EINVAL: i64 = -(libc::EINVAL as i64);
/// The most that one call moves.
const MOST: u64 = 0x7fff_f000;
/// The most parts of a vector.
const PARTS: u64 = 1024;
/// Nobody has memory there.
const NOWHERE: u64 = 0;

/// Under `relive run`, where nothing is remembered of descriptors: one may lead to memory.
static OPENED: AtomicBool = AtomicBool::new(false);

/// A file of memory has been opened.
pub fn opened() {
    OPENED.store(true, Ordering::Relaxed);
}

/// Whose memory a descriptor leads to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Own,
    Another,
}

/// The process or thread whose memory a file of `/proc` is, by the name that the kernel has for
/// it: `…/PID/mem`, `…/PID/task/TID/mem`.
#[must_use]
pub fn owner(fd: i32) -> Option<u32> {
    let name = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    let name = name.to_str()?;
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    let folder = name.strip_suffix("/mem")?;
    let mut parts = folder.rsplit('/');
    let number: u32 = parts.next()?.parse().ok()?;
    match (parts.next(), parts.next()) {
        (Some("task"), Some(process)) => process.parse().ok(),
        _ => Some(number),
    }
}

/// Whether a number is that of this process or of one of its threads.
#[must_use]
pub fn is_own(task: &Task, pid: u32) -> bool {
    // SAFETY: asks, and sends nothing.
    let thread = || unsafe {
        let args = [u64::from(task.process.pid), u64::from(pid), 0, 0, 0, 0];
        sys::syscall(libc::SYS_tgkill as u64, args) == 0
    };
    pid == task.process.pid || pid == task.tid || thread()
}

fn whose(task: &Task, fd: i32) -> Option<Whose> {
    if task.mode().traits().together && !OPENED.load(Ordering::Relaxed)
        || !crate::input::is_memory(task, fd)
    {
        return None;
    }
    let own = owner(fd).is_some_and(|pid| is_own(task, pid));
    Some(if own { Whose::Own } else { Whose::Another })
}

/// read(2), pread(2), readv(2), preadv(2): of memory, or as all others.
pub fn read(task: &mut Task, call: &Call) -> Result<i64> {
    Ok(match whose(task, call.int(0)) {
        None => generic(task, call),
        Some(whose) => Transfer::of(task, call, whose, false).map_or_else(|e| e, |t| t.make(task)),
    })
}

/// write(2), pwrite(2), writev(2), pwritev(2): to memory, or as all others.
pub struct Write;

impl Operation for Write {
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn perform(task: &mut Task, call: &Call, (): &mut ()) -> Result<i64> {
        Ok(match whose(task, call.int(0)) {
            None => generic(task, call),
            Some(Whose::Another) => refuse(call, libc::EPERM),
            Some(Whose::Own) => {
                Transfer::of(task, call, Whose::Own, true).map_or_else(|e| e, |t| t.make(task))
            }
        })
    }

    fn apply(task: &mut Task, call: &Call, (): (), outcome: &Outcome<'_>) -> Result<i64> {
        match (Written::of(task, outcome), outcome.told) {
            (None, _) => {}
            // The kernel has written it.
            (Some(w), None) => machine().memory().code_changed(w.at, w.at + w.len),
            (Some(w), Some(_)) => again(task, call, w)?,
        }
        Ok(outcome.result)
    }
}

/// The memory that a call has written through a descriptor.
struct Written {
    at: u64,
    len: u64,
}

impl Written {
    /// What the call has noted; output to a standard stream notes other data.
    fn of(task: &Task, outcome: &Outcome<'_>) -> Option<Self> {
        let stream = outcome.told.map_or(task.log.stream, |a| a.stream);
        let extra = outcome.extra(task);
        let word = |i: usize| {
            let bytes = extra.get(8 * i..8 * i + 8);
            u64::from_le_bytes(bytes.and_then(|b| b.try_into().ok()).unwrap_or_default())
        };
        (stream == 0 && !extra.is_empty()).then(|| Self {
            at: word(0),
            len: word(1),
        })
    }

    fn note(&self, extra: &mut Vec<u8>) {
        extra.extend([self.at, self.len].iter().flat_map(|w| w.to_le_bytes()));
    }
}

/// One call that moves bytes between buffers of the guest and the memory behind a descriptor.
struct Transfer {
    fd: u64,
    whose: Whose,
    writes: bool,
    parts: Parts,
    /// Where in the memory it goes on.
    at: u64,
    /// It goes on at the descriptor's position, which it moves.
    moves: bool,
    /// Bytes written to the memory.
    written: u64,
}

impl Transfer {
    /// What a call is to do, after the checks that the kernel makes before anything else.
    fn of(task: &Task, call: &Call, whose: Whose, writes: bool) -> std::result::Result<Self, i64> {
        let fd = call.args[0];
        // Whether it is open for that. Nothing is moved.
        let probe = access(fd, writes, &mut [], NOWHERE);
        if probe < 0 {
            return Err(probe);
        }
        let (parts, offset) = arguments(task, call)?;
        let total: u64 = parts.iter().map(|(_, len)| len).sum();
        let at = match offset {
            Some(offset) if (offset as i64) < 0 => return Err(EINVAL),
            Some(offset) => offset,
            None => seek(fd, 0, libc::SEEK_CUR),
        };
        if (at as i64) < 0 && total >= at.wrapping_neg() {
            return Err(-i64::from(libc::EOVERFLOW));
        }
        Ok(Self {
            fd,
            whose,
            writes,
            parts,
            at,
            moves: offset.is_none(),
            written: 0,
        })
    }

    /// Makes it; the result of the call.
    fn make(mut self, task: &mut Task) -> i64 {
        let (start, mut result) = (self.at, 0);
        for (buffer, len) in std::mem::take(&mut self.parts) {
            let moved = self.part(task, buffer, len);
            if moved < 0 {
                result = if result == 0 { moved } else { result };
                break;
            }
            result += moved;
            if moved as u64 != len {
                break;
            }
        }
        if self.moves && self.at != start {
            seek(self.fd, self.at, libc::SEEK_SET);
        }
        if self.written != 0 {
            let (at, len) = (start, self.written);
            Written { at, len }.note(&mut task.log.extra);
        }
        result
    }

    /// One of the guest's buffers; the number of bytes, or what is wrong.
    fn part(&mut self, task: &mut Task, buffer: u64, len: u64) -> i64 {
        let mut stored = 0;
        let moved = self.pieces(task, buffer, len, &mut stored);
        task.log.wrote(buffer, stored);
        moved
    }

    /// In pieces of a page: what is bad in one leaves those before as they are. `stored` is how much
    /// of the guest's buffer may have changed.
    fn pieces(&mut self, task: &Task, buffer: u64, len: u64, stored: &mut u64) -> i64 {
        let mut page = [0; PAGE as usize];
        let mut done = 0;
        while done < len {
            let here = buffer + done;
            let piece = &mut page[..PAGE.min(len - done) as usize];
            if self.writes && copy::read(GuestAddr(here), piece).is_err() {
                return EFAULT;
            }
            let n = self.access(piece);
            if n <= 0 {
                return if done > 0 { done as i64 } else { n };
            }
            if self.writes {
                self.written += n as u64;
            } else {
                *stored = done + n as u64;
                if let Err(e) = task.write(here, &piece[..n as usize]) {
                    return e;
                }
            }
            self.at = self.at.wrapping_add(n as u64);
            done += n as u64;
        }
        done as i64
    }

    /// Moves one piece, as far as there is memory; the number of bytes.
    fn access(&self, piece: &mut [u8]) -> i64 {
        let end = self.at.saturating_add(piece.len() as u64);
        let there = match self.whose {
            Whose::Own => machine().memory().space.mapped_until(self.at, end).min(end),
            // Its map is not known here; the host's own is not shown at least.
            Whose::Another if layout::guest_may_map_range(self.at, end) => end,
            Whose::Another => self.at,
        };
        let n = there.saturating_sub(self.at) as usize;
        if n == 0 {
            // What the kernel says: nothing at all, if the whole memory is gone.
            return access(self.fd, self.writes, &mut piece[..1], NOWHERE);
        }
        if self.writes {
            machine().memory().unguard(self.at, there);
        }
        access(self.fd, self.writes, &mut piece[..n], self.at)
    }
}

/// Buffers of the guest: address, length.
type Parts = Vec<(u64, u64)>;

/// The buffers of a call, and its offset if it has one.
fn arguments(task: &Task, call: &Call) -> std::result::Result<(Parts, Option<u64>), i64> {
    let end = call.input().or_else(|| call.output());
    let (Some(row), Some((end, memory))) = (call.row, end.and_then(|e| Some((e, e.memory?))))
    else {
        return Err(EINVAL);
    };
    let offset = match end.at {
        At::Offset(offset) => Some(call.arg(offset)),
        At::Flagged { flags, .. } if call.arg(flags) & !(libc::RWF_HIPRI as u64) != 0 => {
            return Err(-i64::from(libc::EOPNOTSUPP));
        }
        At::Flagged { offset, .. } => Some(call.arg(offset)).filter(|at| *at != u64::MAX),
        At::Position | At::Pointer(_) | At::Stream => None,
    };
    let at = call.arg(memory);
    let mut parts = match row.args[usize::from(memory)] {
        Arg::Iovec { count, .. } => read_vector(task, at, call.arg(count))?,
        _ => vec![(at, call.args[2])],
    };
    let mut room = MOST;
    for (at, len) in &mut parts {
        if (*len as i64) < 0 {
            return Err(EINVAL);
        }
        // What the kernel takes for an address of a program.
        if at.checked_add(*len).is_none_or(|end| end > layout::FS_END) {
            return Err(EFAULT);
        }
        *len = (*len).min(room);
        room -= *len;
    }
    Ok((parts, offset))
}

/// The parts of a vector: address, length.
fn read_vector(task: &Task, at: u64, count: u64) -> std::result::Result<Parts, i64> {
    if count > PARTS {
        return Err(EINVAL);
    }
    let part = |k: u64| {
        let at = at.wrapping_add(16 * k);
        Ok((task.read_u64(at)?, task.read_u64(at.wrapping_add(8))?))
    };
    (0..count).map(part).collect()
}

fn seek(fd: u64, to: u64, whence: i32) -> u64 {
    // SAFETY: moves the position of the guest's descriptor, as its call does, or only asks.
    (unsafe { sys::syscall(libc::SYS_lseek as u64, [fd, to, whence as u64, 0, 0, 0]) }) as u64
}

/// Reads or writes the memory behind a descriptor.
fn access(fd: u64, writes: bool, piece: &mut [u8], at: u64) -> i64 {
    let nr = match writes {
        true => libc::SYS_pwrite64,
        false => libc::SYS_pread64,
    };
    let args = [fd, piece.as_mut_ptr() as u64, piece.len() as u64, at, 0, 0];
    // SAFETY: the buffer is ours, and what is written lies in the guest's map.
    (unsafe { sys::syscall(nr as u64, args) }) as i64
}

/// Writes in replay what the recorded call wrote.
fn again(task: &Task, call: &Call, written: Written) -> Result<()> {
    let (mut at, mut left) = (written.at, written.len);
    let parts = arguments(task, call).map_or_else(|_| Vec::new(), |(parts, _)| parts);
    let mut page = [0; PAGE as usize];
    for (buffer, len) in parts {
        let mut done = 0;
        while done < len.min(left) {
            let n = PAGE.min(len - done).min(left - done);
            let piece = &mut page[..n as usize];
            task.mode().wrote(at, n);
            if copy::read(GuestAddr(buffer + done), piece).is_err()
                || machine().memory().poke(at, piece).is_err()
            {
                let expected = format!("{call} writing {n} bytes at {at:#x}");
                return Err(task.mode().diverged(task, &expected, "a bad address"));
            }
            at += n;
            done += n;
        }
        left -= done;
    }
    Ok(())
}

/// process_vm_readv(2): of itself, what it has; others' memory is the kernel's matter.
pub fn read_vectors(task: &mut Task, call: &Call) -> Result<i64> {
    if !is_own(task, call.int(0) as u32) {
        return Ok(generic(task, call));
    }
    Ok(with_remote(task, call, |_| {}).0)
}

/// process_vm_writev(2) to the caller's own memory.
pub fn write_vectors(task: &mut Task, call: &Call) -> Result<i64> {
    if !is_own(task, call.int(0) as u32) {
        return Ok(refuse(call, libc::EPERM));
    }
    let (result, parts) = with_remote(task, call, |parts| {
        for &[at, len] in parts {
            machine().memory().unguard(at, at + len);
        }
    });
    let mut left = result.max(0) as u64;
    for [at, len] in parts {
        task.log.wrote(at, len.min(left));
        left -= len.min(left);
    }
    Ok(result)
}

/// Makes such a call with the remote vector cut to what the guest's map has, of which `prepare`
/// hears before. The result, and the vector.
fn with_remote(
    task: &mut Task,
    call: &Call,
    prepare: impl FnOnce(&[[u64; 2]]),
) -> (i64, Vec<[u64; 2]>) {
    let mut cut = *call;
    let all = match read_vector(task, call.args[3], call.args[4]) {
        Ok(all) if all.iter().any(|(_, len)| (*len as i64) < 0) => return (EINVAL, Vec::new()),
        Ok(all) => all,
        Err(_) => {
            // The kernel says what is wrong with it, and does not find it in the host's memory.
            cut.args[3] = NOWHERE;
            return (generic(task, &cut), Vec::new());
        }
    };
    let wanted: u64 = all
        .iter()
        .map(|(_, len)| len)
        .fold(0, |a, b| a.saturating_add(*b));
    let mut parts = Vec::new();
    for (at, len) in all {
        let end = at.saturating_add(len);
        let there = machine().memory().space.mapped_until(at, end).min(end);
        parts.push([at, there.saturating_sub(at)]);
        if there < end {
            break;
        }
    }
    if wanted != 0 && parts.iter().all(|[_, len]| *len == 0) {
        // Let the kernel look at everything else.
        parts = vec![[NOWHERE, 1]];
    }
    prepare(&parts);
    (cut.args[3], cut.args[4]) = (parts.as_ptr() as u64, parts.len() as u64);
    (generic(task, &cut), parts)
}
