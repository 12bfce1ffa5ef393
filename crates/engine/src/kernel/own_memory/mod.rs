//! The program's own memory as a file: `/proc/self/mem` by whatever name or descriptor, and
//! process_vm_readv(2) and process_vm_writev(2) of itself.
//!
//! The descriptor is the kernel's. To the kernel that memory is the host's as well, so what is read
//! and written is cut here to what the guest's map has; the rest is done as the kernel does it
//! (fs/proc/base.c, `mem_rw`), piece by piece. A replay has no such file: what was read is on the
//! tape, and what was written is taken from the guest's buffers once more.

mod transfer;
mod vectors;

pub use vectors::{read_vectors, write_vectors};

use std::sync::atomic::{AtomicBool, Ordering};

use relive_host::{GuestAddr, addr::PAGE, copy, sys};

use transfer::{Transfer, arguments};

use super::call::Call;
use super::live::generic;
use super::operation::{Operation, Outcome, Prepared};
use super::refuse::refuse;
use crate::failure::Result;
use crate::task::Task;

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
        || !crate::input::descriptors::is_memory(task, fd)
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
            (Some(w), None) => task.machine().memory().code_changed(w.at, w.at + w.len),
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
                || task.machine().memory().poke(at, piece).is_err()
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

#[cfg(test)]
mod tests {
    use relive_host::{GuestAddr, copy};

    use super::Written;
    use crate::failure::Failure;
    use crate::testing::{Asked, Guest};

    const AT: u64 = 0x1000_3000_0000;
    const TO: u64 = 0x1000_3100_0000;

    /// A write of 10 bytes, of which 6 came to `TO`, as a tape has it.
    fn told(guest: &mut Guest, to: u64) -> Result<i64, Failure> {
        let mut extra = Vec::new();
        Written { at: to, len: 6 }.note(&mut extra);
        guest.told(libc::SYS_write, &[5, AT, 10], 6, &extra)
    }

    #[test]
    fn a_replay_writes_again_what_was_written() {
        let mut guest = Guest::new();
        guest.map(AT, 0x1000);
        guest.map(TO, 0x1000);
        copy::write(GuestAddr(AT), b"0123456789").expect("it is mapped");
        assert_eq!(told(&mut guest, TO).ok(), Some(6));
        let there = copy::read_array::<8>(GuestAddr(TO)).expect("it is mapped");
        assert_eq!(&there, b"012345\0\0");
        assert_eq!(guest.asked(), [Asked::Wrote(TO, 6)]);
        let nowhere = told(&mut guest, 0x5500_0000);
        assert!(
            matches!(nowhere, Err(Failure::Divergence(_))),
            "{nowhere:?}"
        );
    }

    #[test]
    fn what_a_write_to_something_else_moved_is_left_alone() {
        let mut guest = Guest::new();
        guest.map(AT, 0x1000);
        let result = guest.told(libc::SYS_write, &[5, AT, 10], 10, &[]);
        assert_eq!((result.ok(), guest.asked()), (Some(10), Vec::new()));
    }
}
