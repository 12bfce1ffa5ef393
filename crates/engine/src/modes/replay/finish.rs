//! The end of a call in a replay: its result is compared, and its other effects on the tape are
//! brought about.

use relive_trace::input_sum;

use super::hook_state;
use super::output_order as replayed;
use super::report::divergence;
use super::watching::wrote;
use crate::call::Call;
use crate::call::answer::Answer;
use crate::failure::Result;
use crate::kernel::stream_output;
use crate::tape::Tape;
use crate::task::Task;

/// Applies the writes and the output; `result` is the engine's result of the call.
///
/// # Errors
/// Divergence: the result differs, or a write does not fit the memory map.
pub fn finish(answer: &Answer, task: &mut Task, call: &Call, result: i64) -> Result<()> {
    if result != answer.result {
        return Err(divergence(
            task,
            &format!("{call} = {}", answer.result),
            &format!("{call} = {result}"),
        ));
    }
    if answer.has_writes() {
        let mut memory = task.machine().memory();
        let stored = answer.refs.iter().map(|r| {
            let bytes = crate::input::recorded::recorded(r.offset, r.length)?;
            Ok::<_, crate::failure::Failure>((r.address, bytes))
        });
        for write in answer.writes().map(Ok).chain(stored) {
            let (addr, bytes) = write?;
            wrote(addr, bytes.len() as u64);
            if let Err(bad) = memory.poke(addr, bytes)? {
                drop(memory);
                let expected = format!("{call} writing {} bytes at {addr:#x}", bytes.len());
                return Err(divergence(
                    task,
                    &expected,
                    &format!("nothing mapped at {}", bad.0),
                ));
            }
        }
    }
    if let Tape::In(tape) = &mut task.tape
        && let Some(recorded) = tape.written.take()
    {
        let bytes = stream_output::gather(task, call, result as u64);
        let sum = bytes.as_deref().map(input_sum);
        if sum != Some(recorded) {
            tracing::debug!(target: "syscall", "{call} of {:?}", bytes.as_deref().map(String::from_utf8_lossy));
            return Err(divergence(
                task,
                &format!("{call} = {result}"),
                "the same with other bytes in its buffer",
            ));
        }
    }
    if answer.stream != 0 {
        replayed::replay(task, call, answer)?;
        if let Some(order) = answer.order {
            hook_state::made_output(order);
        }
    }
    task.at_event();
    Ok(())
}
