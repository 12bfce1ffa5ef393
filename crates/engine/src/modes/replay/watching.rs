//! Watched memory during a replay: the accesses of an instruction that count, and the writes on the
//! kernel's behalf.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use relive_dbt::{Access, Watched, accesses};

use crate::failure::Result;
use crate::guide::protocol::{Watching, Watchpoint};
use crate::machine::Machine;
use crate::modes::replay::races::tracking;
use crate::task::Task;

/// Watched for writes by the kernel's part of the replay, and the first write noticed.
struct WatchedMemory {
    watched: Vec<Watchpoint>,
    noticed: Option<(Watchpoint, u64)>,
}

/// The watched memory of this process. Process-wide: the mode is told of writes without a task and without
/// a session.
static KERNEL: Mutex<WatchedMemory> = Mutex::new(WatchedMemory {
    watched: Vec::new(),
    noticed: None,
});

/// Whether anything is watched; if not, the lock is not taken.
/// Process-wide: it belongs to the watched memory.
static ANY: AtomicBool = AtomicBool::new(false);

/// Notes that the replay has written guest memory on the kernel's behalf.
pub fn wrote(addr: u64, len: u64) {
    tracking::wrote(addr, len);
    if !ANY.load(Ordering::Relaxed) {
        return;
    }
    let mut kernel = KERNEL.lock().expect("no thread panics: panics abort");
    let hit = kernel
        .watched
        .iter()
        .copied()
        .find(|w| w.kind != Watching::Reads && overlap(w, addr, len));
    if let (Some(w), None) = (hit, kernel.noticed) {
        kernel.noticed = Some((w, addr.max(w.addr)));
    }
}

/// Sets the watchpoints.
pub fn set(watchpoints: &[Watchpoint]) {
    let mut kernel = KERNEL.lock().expect("no thread panics: panics abort");
    kernel.watched = watchpoints.to_vec();
    kernel.noticed = None;
    ANY.store(!watchpoints.is_empty(), Ordering::Relaxed);
}

/// Whether the translator checks each access.
pub fn check(machine: &Machine, checks: bool) -> std::result::Result<(), relive_dbt::Error> {
    let kernel = KERNEL.lock().expect("no thread panics: panics abort");
    let watched: Vec<Watched> = kernel
        .watched
        .iter()
        .filter(|_| checks)
        .map(|w| Watched {
            addr: w.addr,
            len: w.len,
            reads: w.kind != Watching::Writes,
            writes: w.kind != Watching::Reads,
        })
        .collect();
    drop(kernel);
    machine.memory().translator.set_watched(&watched)
}

/// Takes the first write that `wrote` has noticed since the last call.
pub fn noticed() -> Option<(Watchpoint, u64)> {
    if !ANY.load(Ordering::Relaxed) {
        return None;
    }
    let mut kernel = KERNEL.lock().expect("no thread panics: panics abort");
    kernel.noticed.take()
}

/// The watchpoint that the instruction at the task's pc is about to touch, and where.
///
/// # Errors
/// Its code cannot be guarded.
pub fn touched(task: &Task, watchpoints: &[Watchpoint]) -> Result<Option<(Watchpoint, u64)>> {
    if watchpoints.is_empty() {
        return Ok(None);
    }
    let ctx = &task.ctx;
    let all = task
        .machine()
        .memory()
        .with_code(true, |_, code| accesses(code, ctx))?;
    let counts = |w: &Watchpoint, a: &Access| {
        let kind = match w.kind {
            Watching::Writes => a.writes,
            Watching::Reads => a.reads,
            Watching::Both => a.reads || a.writes,
        };
        kind && overlap(w, a.addr, a.len)
    };
    let hit = watchpoints
        .iter()
        .find_map(|w| all.iter().find(|a| counts(w, a)).map(|a| (w, a)));
    Ok(hit.map(|(w, a)| (*w, a.addr.max(w.addr))))
}

fn overlap(w: &Watchpoint, addr: u64, len: u64) -> bool {
    addr < w.addr.saturating_add(w.len) && w.addr < addr.saturating_add(len)
}
