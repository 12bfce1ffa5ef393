//! Events that every recorder logs in the same way: calls that only answer, values of instructions, readings of
//! clocks. Must never decide which thread runs.

use relive_host::reading::Entry;
use relive_host::sys;
use relive_trace::{Bare, Kind};

use crate::failure::Result;
use crate::mode::Reading;
use crate::shm::Logged;
use crate::tape::{Tape, digest};
use crate::task::Task;

/// Makes a call that only answers, and logs it.
///
/// # Errors
/// The event is lost.
#[inline]
pub fn plain_call(task: &mut Task, nr: u64, args: &[u64; 6], used: usize) -> Logged<i64> {
    // SAFETY: by its row the call writes no memory and changes nothing that the host relies on.
    let result = (unsafe { sys::syscall(nr, *args) }) as i64;
    let call = Bare {
        ticks: task.ctx.ticks(),
        digest: digest(&task.ctx),
        nr: nr as u32,
        args: &args[..used],
    };
    if let Tape::Out(tape) = &mut task.tape {
        tape.put_bare(&call, result)?;
    }
    Ok(result)
}

/// Logs the values of an instruction, of which the first `n` count.
///
/// # Errors
/// The event is lost.
pub fn instruction(
    task: &mut Task,
    number: u8,
    n: u8,
    values: &mut dyn FnMut(&Task) -> [u64; 4],
) -> Result<[u64; 4]> {
    let values = values(task);
    task.record(Kind::Instr {
        op: number,
        values,
        n,
    })?;
    Ok(values)
}

/// Keeps a reading that translated code left to the engine.
///
/// # Errors
/// The event is lost that makes room for it.
pub fn reading(
    task: &mut Task,
    source: u32,
    values: &mut dyn FnMut(&Task) -> [u64; 4],
) -> Result<Reading> {
    let event = make_room(task)?;
    let [value, extra, ..] = values(task);
    let ticks = task.ctx.ticks();
    if let Tape::Out(tape) = &mut task.tape {
        let entry = Entry {
            value,
            source,
            extra: extra as u32,
        };
        tape.readings.push(entry, ticks);
    }
    Ok(Reading::Values([value, extra], event))
}

/// Writes a full buffer: an event, at the reading that is about to be made. Whether it was.
fn make_room(task: &mut Task) -> Result<bool> {
    let (ticks, digest) = (task.ctx.ticks(), digest(&task.ctx));
    match &mut task.tape {
        Tape::Out(tape) if tape.readings.is_full() => {
            tape.put_full(ticks, digest)?;
            task.at_event();
            Ok(true)
        }
        _ => Ok(false),
    }
}
