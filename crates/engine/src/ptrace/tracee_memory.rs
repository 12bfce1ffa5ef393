//! The memory of a stopped tracee, and its files in `/proc`, as its tracer reaches them without ptrace(2). Must never
//! write another process's memory but by the host of that tracee.

use std::sync::atomic::Ordering;

use super::asks::asked;
use super::requests::ask;
use super::slots::{ROOM, SLOTS, Slot, TraceRequest};
use super::standing::state;
use super::stop::traces;
use crate::failure::Result;
use crate::shm::Shm;
use crate::task::Task;

const EIO: i64 = -(libc::EIO as i64);

/// A stopped thread of a process that the calling process traces.
fn stopped(task: &Task, shm: &'static Shm, process: u32) -> Option<&'static Slot> {
    let own = task.process.pid;
    let mut all = SLOTS.of(shm).of_process(process);
    let found =
        all.find(|(_, s)| s.tracer.load(Ordering::Acquire) == own && s.state() == state::STOPPED);
    found.map(|(_, slot)| slot)
}

/// Whether the calling process traces a process, and it is stopped.
#[must_use]
pub fn has_stopped(task: &Task, process: u32) -> bool {
    traces(task).is_some_and(|shm| stopped(task, shm, process).is_some())
}

/// The content of a file in `/proc` that shows the guest of a stopped tracee.
///
/// # Errors
/// The turn behind it is lost.
pub fn file(task: &mut Task, process: u32, file: u64) -> Result<Option<Vec<u8>>> {
    let Some(slot) = traces(task).and_then(|shm| stopped(task, shm, process)) else {
        return Ok(None);
    };
    let mut all = Vec::new();
    loop {
        let request = TraceRequest {
            what: ask::FILE,
            argument: (all.len() as u64) << 8 | file,
            length: 0,
        };
        let mut part = [0; ROOM];
        match asked(task, slot, request, &mut part)? {
            Some(n @ 1..) => all.extend(&part[..n as usize]),
            Some(_) => return Ok(Some(all)),
            None => return Ok(None),
        }
    }
}

/// Writes to the memory of a stopped tracee of the calling process. `None`: the process is no such one.
///
/// # Errors
/// The turn behind it is lost.
pub fn write_memory(task: &mut Task, process: u32, at: u64, bytes: &[u8]) -> Result<Option<i64>> {
    let Some(slot) = traces(task).and_then(|shm| stopped(task, shm, process)) else {
        return Ok(None);
    };
    let mut done = 0;
    for piece in bytes.chunks(ROOM) {
        let request = TraceRequest {
            what: ask::WRITE,
            argument: at.wrapping_add(done),
            length: piece.len(),
        };
        let mut copy = piece.to_vec();
        match asked(task, slot, request, &mut copy)? {
            Some(n @ 0..) => done += n as u64,
            _ if done == 0 => return Ok(Some(EIO)),
            _ => break,
        }
    }
    Ok(Some(done as i64))
}
