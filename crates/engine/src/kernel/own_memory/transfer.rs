//! Transfers between buffers of the guest and the memory behind a descriptor, piece by piece. Must
//! never read or write memory that the guest has not mapped.

use relive_host::{GuestAddr, addr::PAGE, copy, layout, sys};
use relive_kabi::{Arg, At};

use super::whose::{NOWHERE, Whose};
use super::written::Written;
use crate::call::Call;
use crate::failure::Result;
use crate::kernel::buffers::{UIO_MAXIOV, list_len};
use crate::task::Task;

const EFAULT: i64 = -(libc::EFAULT as i64);
pub(super) const EINVAL: i64 = -(libc::EINVAL as i64);
/// The most that one call moves.
const MOST: u64 = 0x7fff_f000;

/// One call that moves bytes between buffers of the guest and the memory behind a descriptor.
pub(super) struct Transfer {
    fd: u64,
    whose: Whose,
    writes: bool,
    parts: Parts,
    /// The address in the memory at which it goes on.
    at: u64,
    /// It starts at the descriptor's position, and advances it.
    moves: bool,
    /// Bytes written to the memory.
    written: u64,
}

impl Transfer {
    /// The transfer of a call, after the checks that the kernel makes before anything else.
    pub(super) fn of(
        task: &Task,
        call: &Call,
        whose: Whose,
        writes: bool,
    ) -> std::result::Result<Self, i64> {
        let fd = call.args[0];
        // Checks that the descriptor is open for this direction. Transfers nothing.
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

    /// Makes the transfer. Returns the result of the call.
    ///
    /// # Errors
    /// A page cannot be opened.
    pub(super) fn make(mut self, task: &mut Task) -> Result<i64> {
        let (start, mut result) = (self.at, 0);
        for (buffer, len) in std::mem::take(&mut self.parts) {
            let moved = self.part(task, buffer, len)?;
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
        Ok(result)
    }

    /// Transfers one of the guest's buffers. Returns the number of bytes, or an errno (negative).
    fn part(&mut self, task: &mut Task, buffer: u64, len: u64) -> Result<i64> {
        let mut stored = 0;
        let moved = self.pieces(task, buffer, len, &mut stored);
        task.log.wrote(buffer, stored);
        moved
    }

    /// Transfers a buffer in pieces of a page: an error in one leaves the pieces before it done.
    /// `stored` becomes the number of bytes of the guest's buffer that may have changed.
    fn pieces(&mut self, task: &Task, buffer: u64, len: u64, stored: &mut u64) -> Result<i64> {
        let mut page = [0; PAGE as usize];
        let mut done = 0;
        while done < len {
            let here = buffer + done;
            let piece = &mut page[..PAGE.min(len - done) as usize];
            if self.writes && copy::read(GuestAddr(here), piece).is_err() {
                return Ok(EFAULT);
            }
            let n = self.access(task, piece)?;
            if n <= 0 {
                return Ok(if done > 0 { done as i64 } else { n });
            }
            if self.writes {
                self.written += n as u64;
            } else {
                *stored = done + n as u64;
                if let Err(e) = task.write(here, &piece[..n as usize]) {
                    return e.result();
                }
            }
            self.at = self.at.wrapping_add(n as u64);
            done += n as u64;
        }
        Ok(done as i64)
    }

    /// Transfers one piece, as far as memory is mapped. Returns the number of bytes.
    fn access(&self, task: &Task, piece: &mut [u8]) -> Result<i64> {
        let end = self.at.saturating_add(piece.len() as u64);
        let there = match self.whose {
            Whose::Own => task
                .machine()
                .memory()
                .space
                .mapped_until(self.at, end)
                .min(end),
            // The other process's map is not known here; at least its host's memory is not shown.
            Whose::Another if layout::guest_may_map_range(self.at, end) => end,
            Whose::Another => self.at,
        };
        let n = there.saturating_sub(self.at) as usize;
        if n == 0 {
            // The kernel's result for an unmapped address; 0, if the process has ended.
            return Ok(access(self.fd, self.writes, &mut piece[..1], NOWHERE));
        }
        if self.writes {
            task.machine().memory().unguard(self.at, there)?;
        }
        Ok(access(self.fd, self.writes, &mut piece[..n], self.at))
    }
}

/// Buffers of the guest: address, length.
type Parts = Vec<(u64, u64)>;

/// The buffers of a call, and its offset if it has one.
pub(super) fn arguments(
    task: &Task,
    call: &Call,
) -> std::result::Result<(Parts, Option<u64>), i64> {
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
        Arg::Iovec { count, .. } => read_vector(task, at, list_len(call.arg(count)))?,
        _ => vec![(at, call.args[2])],
    };
    let mut room = MOST;
    for (at, len) in &mut parts {
        if (*len as i64) < 0 {
            return Err(EINVAL);
        }
        // The kernel's limit on user addresses.
        if at.checked_add(*len).is_none_or(|end| end > layout::FS_END) {
            return Err(EFAULT);
        }
        *len = (*len).min(room);
        room -= *len;
    }
    Ok((parts, offset))
}

/// The parts of a vector: address, length.
pub(super) fn read_vector(task: &Task, at: u64, count: u64) -> std::result::Result<Parts, i64> {
    if count > UIO_MAXIOV {
        return Err(EINVAL);
    }
    let part = |k: u64| {
        let at = at.wrapping_add(16 * k);
        Ok((task.read_u64(at)?, task.read_u64(at.wrapping_add(8))?))
    };
    (0..count).map(part).collect()
}

/// The bytes of the guest's buffers, as far as a tracer's write goes at once. `None`: they cannot be read.
pub(super) fn gather(parts: &[(u64, u64)]) -> Option<Vec<u8>> {
    const AT_ONCE: u64 = 1 << 20;
    let mut bytes = Vec::new();
    for &(at, len) in parts {
        let from = bytes.len();
        bytes.resize(from + len.min(AT_ONCE - from as u64) as usize, 0);
        copy::read(GuestAddr(at), &mut bytes[from..]).ok()?;
    }
    Some(bytes)
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
    // SAFETY: the buffer is ours, and the range that is written lies in the guest's map.
    (unsafe { sys::syscall(nr as u64, args) }) as i64
}
