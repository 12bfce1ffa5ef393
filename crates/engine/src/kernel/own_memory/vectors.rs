//! process_vm_readv(2), process_vm_writev(2) and process_madvise(2) of the program itself.

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::transfer::{EINVAL, gather, read_vector};
use super::whose::{NOWHERE, is_own};
use crate::call::Call;
use crate::failure::Result;
use crate::ids::of_pidfd;
use crate::kernel::buffers::list_len;
use crate::kernel::generic::generic;
use crate::kernel::refuse::refuse;
use crate::ptrace::tracee_memory;
use crate::task::Task;

/// An advice that no kernel knows.
const UNKNOWN: u64 = i32::MAX as u64;

/// Advice that every kernel with process_madvise(2) gives to any process. The other kinds are newer, to the
/// caller itself only, and change contents.
const KEEPS_CONTENT: [i32; 4] = [
    libc::MADV_WILLNEED,
    libc::MADV_COLD,
    libc::MADV_PAGEOUT,
    libc::MADV_COLLAPSE,
];

/// process_madvise(2), of which only advice that changes nothing is given. Any other is an unknown one: the
/// kernel finds the errors that it finds before that.
pub fn process_madvise(task: &mut Task, call: &Call) -> Result<i64> {
    let mut asked = *call;
    if !KEEPS_CONTENT.contains(&call.int(3)) {
        asked.args[3] = UNKNOWN;
    }
    match of_pidfd(call.int(0)) {
        Some(pid) if is_own(task, pid) => Ok(with_remote(task, &asked, 1, |_| Ok(()))?.0),
        _ => generic(task, &asked),
    }
}

/// process_vm_readv(2): of the caller's own memory, the mapped part; other processes' memory is left to
/// the kernel.
pub fn read_vectors(task: &mut Task, call: &Call) -> Result<i64> {
    if !is_own(task, call.int(0) as u32) {
        return generic(task, call);
    }
    Ok(with_remote(task, call, 3, |_| Ok(()))?.0)
}

/// process_vm_writev(2) to the caller's own memory.
pub fn write_vectors(task: &mut Task, call: &Call) -> Result<i64> {
    if !is_own(task, call.int(0) as u32) {
        return to_tracee(task, call);
    }
    let machine = task.machine();
    let (result, parts) = with_remote(task, call, 3, |parts| {
        for &[at, len] in parts {
            machine.memory().unguard(at, at + len)?;
        }
        Ok(())
    })?;
    let mut left = result.max(0) as u64;
    for [at, len] in parts {
        task.log.wrote(at, len.min(left));
        left -= len.min(left);
    }
    Ok(result)
}

/// Writes to the memory of another process, which the caller traces.
fn to_tracee(task: &mut Task, call: &Call) -> Result<i64> {
    let vectors = (
        read_vector(task, call.args[1], list_len(call.args[2])),
        read_vector(task, call.args[3], call.args[4]),
    );
    let (Ok(here), Ok(there)) = vectors else {
        // The kernel names the error in them, and must not find the second in the host's memory.
        let mut cut = *call;
        cut.args[3] = NOWHERE;
        return generic(task, &cut);
    };
    if [&here, &there]
        .iter()
        .any(|parts| parts.iter().all(|(_, len)| *len == 0))
    {
        return Ok(0);
    }
    let Some(bytes) = gather(&here) else {
        return Ok(-i64::from(libc::EFAULT));
    };
    let (mut rest, mut done) = (&bytes[..], 0);
    for (at, len) in there {
        let (piece, behind) = rest.split_at(rest.len().min(len as usize));
        match tracee_memory::write_memory(task, call.int(0) as u32, at, piece)? {
            None if !exists(call.int(0)) => return Ok(-i64::from(libc::ESRCH)),
            None => return Ok(refuse(call, libc::EPERM)),
            Some(n) if n == piece.len() as i64 => done += n,
            Some(_) if done == 0 => return Ok(-i64::from(libc::EFAULT)),
            Some(n) => return Ok(done + n.max(0)),
        }
        rest = behind;
    }
    Ok(done)
}

/// Whether there is a thread with this id.
fn exists(id: i32) -> bool {
    let id = (id > 0).then_some(id).and_then(Pid::from_raw);
    id.is_some_and(|id| test_kill_process(id) != Err(Errno::SRCH))
}

/// Makes such a call with the remote vector, in two arguments, cut to the guest's map; `prepare` gets the cut
/// vector before. Returns the result, and the vector.
fn with_remote(
    task: &mut Task,
    call: &Call,
    vector: usize,
    prepare: impl FnOnce(&[[u64; 2]]) -> Result<()>,
) -> Result<(i64, Vec<[u64; 2]>)> {
    let mut cut = *call;
    let all = match read_vector(task, call.args[vector], call.args[vector + 1]) {
        Ok(all) if all.iter().any(|(_, len)| (*len as i64) < 0) => return Ok((EINVAL, Vec::new())),
        Ok(all) => all,
        Err(_) => {
            // The kernel reports the error; it must not find the vector in the host's memory.
            cut.args[vector] = NOWHERE;
            return Ok((generic(task, &cut)?, Vec::new()));
        }
    };
    let wanted: u64 = all
        .iter()
        .map(|(_, len)| len)
        .fold(0, |a, b| a.saturating_add(*b));
    let mut parts = Vec::new();
    for (at, len) in all {
        let end = at.saturating_add(len);
        let there = task.machine().memory().space.mapped_until(at, end).min(end);
        parts.push([at, there.saturating_sub(at)]);
        if there < end {
            break;
        }
    }
    if wanted != 0 && parts.iter().all(|[_, len]| *len == 0) {
        // All of it is unmapped: the kernel checks the other arguments.
        parts = vec![[NOWHERE, 1]];
    }
    prepare(&parts)?;
    (cut.args[vector], cut.args[vector + 1]) = (parts.as_ptr() as u64, parts.len() as u64);
    Ok((generic(task, &cut)?, parts))
}
