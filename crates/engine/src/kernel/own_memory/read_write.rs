//! read(2), write(2) and their kin, where the file is the program's own memory.

use relive_host::addr::PAGE;
use relive_host::{GuestAddr, copy};

use super::transfer::{Transfer, arguments, gather};
use super::whose::{Whose, whose};
use super::written::Written;
use crate::call::Call;
use crate::descriptor::owner;
use crate::failure::Result;
use crate::kernel::generic::generic;
use crate::kernel::operation::{Operation, Outcome, Prepared};
use crate::kernel::refuse::refuse;
use crate::ptrace::tracee_memory;
use crate::task::Task;

/// read(2), pread(2), readv(2), preadv(2): of memory, or as all others.
pub fn read(task: &mut Task, call: &Call) -> Result<i64> {
    match whose(task, call.int(0)) {
        None => generic(task, call),
        Some(whose) => Transfer::of(task, call, whose, false).map_or_else(Ok, |t| t.make(task)),
    }
}

/// write(2), pwrite(2), writev(2), pwritev(2): to memory, or as all others.
pub struct Write;

impl Operation for Write {
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn perform(task: &mut Task, call: &Call, (): &mut ()) -> Result<i64> {
        match whose(task, call.int(0)) {
            None => generic(task, call),
            Some(Whose::Another) => to_tracee(task, call),
            Some(Whose::Own) => {
                Transfer::of(task, call, Whose::Own, true).map_or_else(Ok, |t| t.make(task))
            }
        }
    }

    fn apply(task: &mut Task, call: &Call, (): (), outcome: &Outcome<'_>) -> Result<i64> {
        match (Written::of(task, outcome), outcome.told) {
            (None, _) => {}
            // The kernel has written it.
            (Some(w), None) => task.machine().memory().code_changed(w.at, w.at + w.len)?,
            (Some(w), Some(_)) => write_again(task, call, w)?,
        }
        Ok(outcome.result)
    }
}

/// Writes at an offset to the memory of another process, which the caller traces.
fn to_tracee(task: &mut Task, call: &Call) -> Result<i64> {
    let (Some(process), Ok((parts, Some(at)))) = (owner(call.int(0)), arguments(task, call)) else {
        return Ok(refuse(call, libc::EPERM));
    };
    let Some(bytes) = gather(&parts) else {
        return Ok(-i64::from(libc::EFAULT));
    };
    let written = tracee_memory::write_memory(task, process, at, &bytes)?;
    Ok(written.unwrap_or_else(|| refuse(call, libc::EPERM)))
}

/// Writes the recorded call's bytes again, in a replay.
fn write_again(task: &Task, call: &Call, written: Written) -> Result<()> {
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
                || task.machine().memory().poke(at, piece)?.is_err()
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
    use crate::failure::{Failure, FailureClass};
    use crate::testing::{Guest, ModeQuery};

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
        assert_eq!(guest.asked(), [ModeQuery::Wrote(TO, 6)]);
        let nowhere = told(&mut guest, 0x5500_0000);
        assert!(
            matches!(&nowhere, Err(failure) if failure.class() == FailureClass::Divergence),
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
