//! The event of a system call.

use relive_trace::{Args, Kind, Refs, Syscall, Writes};

use crate::call::Call;
use crate::call::log::Log;
use crate::failure::Result;
use crate::input::refer::{LogForm, Split};
use crate::task::Task;

/// Logs a call with all effects in `task.log`.
///
/// # Errors
/// No supervisor stores it, or the memory that the call wrote cannot be read.
pub fn log(task: &mut Task, call: &Call, result: i64) -> Result<()> {
    let mut log = std::mem::take(&mut task.log);
    if result == -i64::from(libc::EFAULT) {
        note_missing(task, &mut log);
    }
    let way = LogForm::of(task, call, log.brought());
    let mut refs = std::mem::take(&mut log.refs);
    let machine = task.machine();
    let behind = |from, to| machine.memory().content(from, to);
    log.with_slices(&behind, |log, slices| {
        let record = |task: &mut Task, writes, refs| {
            task.record(Kind::Syscall(Syscall {
                nr: call.nr,
                args: Args::new(call.used()),
                result,
                switched: log.switched,
                order: log.order,
                stream: log.stream,
                writes,
                refs,
                extra: &log.extra,
            }))
        };
        if way == LogForm::Value {
            return record(task, Writes::new(slices), Refs::NONE);
        }
        let split = Split::of(task, way, slices, std::mem::take(&mut refs));
        record(task, Writes::new(&split.values), Refs::new(&split.refs))?;
        refs = split.refs;
        refs.clear();
        Ok(())
    })?;
    log.refs = refs;
    task.log = log;
    Ok(())
}

/// A replay makes some calls again, and its own memory for a file has no such end.
#[cold]
fn note_missing(task: &Task, log: &mut Log) {
    let missing = task.missing.take();
    let memory = task.machine().memory();
    let region = memory.space.at(missing).filter(|_| missing != 0);
    if region.is_some_and(|r| r.common || r.shared) {
        log.missed(missing);
    }
}
