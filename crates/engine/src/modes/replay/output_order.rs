//! Output of a replay: written again, in the order that the recorded processes wrote it.

use std::sync::atomic::Ordering;

use relive_host::sys;

use super::concurrency;
use super::hook_state;
use super::report::divergence;
use crate::call::Call;
use crate::call::answer::Answer;
use crate::failure::{Failure, FailureClass, Result};
use crate::kernel::stream_output;
use crate::task::Task;

/// Writes the recorded output, when it is its turn among the processes of the tree.
///
/// # Errors
/// The guest's buffer is not there, or the output cannot be written.
pub fn replay(task: &mut Task, call: &Call, answer: &Answer) -> Result<()> {
    let moved = stream_output::is_spliced(call).then(|| answer.extra.clone());
    let bytes = moved.or_else(|| stream_output::gather(task, call, answer.result as u64));
    let bytes = bytes.ok_or_else(|| {
        divergence(
            task,
            &format!("{call} = {}", answer.result),
            "an unreadable buffer",
        )
    })?;
    if hook_state::alone() {
        // Of all processes that write, only this one is there: it waits for no other.
        hook_state::caught(answer.stream, &bytes);
        return match hook_state::quiet() {
            true => Ok(()),
            false => write_all(i32::from(answer.stream), &bytes),
        };
    }
    let shm = task
        .machine()
        .shm
        .as_ref()
        .ok_or_else(|| Failure::internal("a replay has shared memory"))?;
    let turn = &shm.header().next_order;
    let order = answer.order.unwrap_or(0);
    let next = turn.load(Ordering::Acquire);
    if next < order {
        tracing::debug!(target: "output", "{} waits with output {order} for {next}", task.id());
    }
    while turn.load(Ordering::Acquire) < order {
        let seen = shm.header().wake.load(Ordering::Acquire);
        if turn.load(Ordering::Acquire) < order {
            let mut waited = Ok(());
            // At rest: where threads run together, another one may need quiet before its own output.
            task.while_away(&mut || {
                waited = concurrency::wait_a_while(shm, seen);
                0
            });
            waited?;
        }
    }
    if !hook_state::quiet() {
        // After a failure no process gets the next turn: later output must not be written
        // where this is missing.
        write_all(i32::from(answer.stream), &bytes)?;
    }
    turn.store(hook_state::output_from(order + 1), Ordering::Release);
    shm.header().wake.fetch_add(1, Ordering::AcqRel);
    sys::futex_wake(&shm.header().wake, u32::MAX >> 1);
    Ok(())
}

fn write_all(fd: i32, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the buffer is ours.
        let n = unsafe {
            sys::syscall(
                libc::SYS_write as u64,
                [
                    fd as u64,
                    bytes.as_ptr() as u64,
                    bytes.len() as u64,
                    0,
                    0,
                    0,
                ],
            )
        };
        match n {
            n if n > 0 => bytes = &bytes[n as usize..],
            n if n == -(libc::EINTR as isize) => {}
            n if n == -(libc::EAGAIN as isize) => {
                std::thread::sleep(std::time::Duration::from_millis(1))
            }
            n if n == -(libc::EPIPE as isize) => return Err(FailureClass::Closed.into()),
            n => {
                return Err(Failure::setup(format!(
                    "cannot write the replayed output to descriptor {fd}: {}",
                    std::io::Error::from_raw_os_error(-n as i32)
                )));
            }
        }
    }
    Ok(())
}
