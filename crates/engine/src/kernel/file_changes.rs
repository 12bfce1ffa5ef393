//! Calls that change the content of a file which the guest has mapped shared: the memory
//! behind the map changes with it, and the tape has to say so.
//!
//! It looks at what a call has done and never makes one that the guest could notice. Files
//! that are changed by processes outside of the recording are not seen.

use std::sync::atomic::Ordering;

use super::Call;
use super::memory::identity_at;
use crate::failure::{Failure, die};
use crate::machine::{Mode, machine};
use crate::sharing::users::Users;
use crate::task::Task;

/// The length of a change that goes on to the end of the file, wherever that is.
const WHOLE: u64 = u64::MAX / 2;

/// Where a call that changes a file has its descriptor, and which part it changes.
enum Change {
    /// As many bytes as it returns, behind the position that it leaves the descriptor at.
    Behind { fd: usize },
    /// As many bytes as it returns, at an offset that is an argument.
    At { fd: usize, offset: usize },
    /// As many bytes as it returns; an argument points to the offset behind them, or is null.
    Through { fd: usize, offset: usize },
    /// Everything from an offset on, which is an argument.
    From { fd: usize, offset: usize },
    /// The whole file of the descriptor that it returns.
    Opened { flags: usize },
}

const CHANGES: [(i64, Change); 13] = [
    (libc::SYS_write, Change::Behind { fd: 0 }),
    (libc::SYS_writev, Change::Behind { fd: 0 }),
    (libc::SYS_sendfile, Change::Behind { fd: 0 }),
    (libc::SYS_pwrite64, Change::At { fd: 0, offset: 3 }),
    (libc::SYS_pwritev, Change::At { fd: 0, offset: 3 }),
    (libc::SYS_pwritev2, Change::At { fd: 0, offset: 3 }),
    (libc::SYS_splice, Change::Through { fd: 2, offset: 3 }),
    (
        libc::SYS_copy_file_range,
        Change::Through { fd: 2, offset: 3 },
    ),
    (libc::SYS_ftruncate, Change::From { fd: 0, offset: 1 }),
    (libc::SYS_fallocate, Change::From { fd: 0, offset: 2 }),
    (libc::SYS_open, Change::Opened { flags: 1 }),
    (libc::SYS_openat, Change::Opened { flags: 2 }),
    (libc::SYS_creat, Change::Opened { flags: 1 }),
];

/// Whether a call may change the content of a file, by its number.
pub fn may_change(nr: u16) -> bool {
    CHANGES.iter().any(|(n, _)| *n == i64::from(nr))
}

/// Notes the guest memory that a call has changed through a file that is mapped shared.
pub fn note(task: &mut Task, call: &Call, result: i64) {
    if result < 0 {
        return;
    }
    let nr = i64::from(call.nr);
    let Some((_, change)) = CHANGES.iter().find(|(n, _)| *n == nr) else {
        return;
    };
    let recording = task.tape.recording();
    let users = machine().shm.as_ref().filter(|_| recording);
    let users = users.map(|s| &s.header().shared);
    if !users.map_or_else(|| machine().memory().space.has_shared_files(), Users::any) {
        return;
    }
    let Some((fd, file, start, len)) = extent(task, call, change, result) else {
        return;
    };
    let mut memory = machine().memory();
    if !recording {
        // Other threads may have moved the position meanwhile.
        let views: Vec<(u64, u64)> = memory.space.shared_views(file, 0, WHOLE).collect();
        views.iter().for_each(|v| memory.code_changed(v.0, v.1));
        return;
    }
    let views: Vec<(u64, u64)> = memory.space.shared_views(file, start, len).collect();
    let seen: u64 = views.iter().map(|(start, end)| end - start).sum();
    // Of a change without an end it is enough to see some of it. A new length is mostly the old
    // one, or a larger one, which changes nothing.
    let least = if len == WHOLE { 1 } else { len };
    if seen < least && nr != libc::SYS_ftruncate {
        refuse_unseen(call, fd, file);
    }
    for &(start, end) in &views {
        memory.code_changed(start, end);
    }
    drop(memory);
    for (start, end) in views {
        task.log.changed(start, end - start);
    }
}

/// Ends the recording if another process maps the file shared: its memory has changed, and
/// no tape says so.
fn refuse_unseen(call: &Call, fd: i32, file: u64) {
    if let (Some(shm), Mode::Record) = (&machine().shm, machine().mode)
        && let header = shm.header()
        && let Some(other) = header
            .shared
            .maps(&header.processes, file, machine().baton.process())
    {
        let path = std::fs::read_link(format!("/proc/self/fd/{fd}"))
            .map_or_else(|_| format!("descriptor {fd}"), |p| p.display().to_string());
        let pid = header.processes.get(other);
        let pid = pid.map_or(0, |slot| slot.pid.load(Ordering::Relaxed));
        let program = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        die(&Failure::unsupported(format!(
            "{} writes to {path:?}, which process {pid} ({}) of the recording maps shared and the writer \
             does not: what it writes is on no tape",
            call.name(),
            program.trim_end()
        )));
    }
}

/// The descriptor of the file, its identity, and the part of it that has changed: start and length.
fn extent(task: &Task, call: &Call, change: &Change, result: i64) -> Option<(i32, u64, u64, u64)> {
    let fd = match *change {
        Change::Behind { fd }
        | Change::At { fd, .. }
        | Change::Through { fd, .. }
        | Change::From { fd, .. } => call.int(fd),
        Change::Opened { flags } => {
            let truncates =
                i64::from(call.nr) == libc::SYS_creat || call.int(flags) & libc::O_TRUNC != 0;
            if !truncates {
                return None;
            }
            result as i32
        }
    };
    if !crate::input::is_regular(task, fd) {
        // Nothing else can be mapped shared and written.
        return None;
    }
    let file = identity_at(fd)?;
    let done = result as u64;
    let behind = || position(fd).saturating_sub(done);
    let (start, len) = match *change {
        Change::Behind { .. } => (behind(), done),
        Change::At { offset: 3, .. } if call.args[3] == u64::MAX => (behind(), done),
        Change::At { offset, .. } => (call.args[offset], done),
        Change::Through { offset, .. } => match call.args[offset] {
            0 => (behind(), done),
            at => (task.read_u64(at).ok()?.saturating_sub(done), done),
        },
        Change::From { offset, .. } => (call.args[offset], WHOLE),
        Change::Opened { .. } => (0, WHOLE),
    };
    (len != 0).then_some((fd, file, start, len))
}

/// The position of a descriptor; 0 where it has none.
fn position(fd: i32) -> u64 {
    // SAFETY: only asks.
    unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) }.max(0) as u64
}
