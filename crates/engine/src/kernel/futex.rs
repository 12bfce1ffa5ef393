//! futex(2): the guest's threads wait for each other in the real kernel while recording.

use super::live::interrupted;
use super::{Answer, Call, Reply, blocking, refuse};
use crate::failure::Result;
use crate::machine::machine;
use crate::task::Task;
use relive_host::sys;

const WAIT: i32 = 0;
const WAKE: i32 = 1;
const REQUEUE: i32 = 3;
const CMP_REQUEUE: i32 = 4;
const WAKE_OP: i32 = 5;
const WAIT_BITSET: i32 = 9;
const WAKE_BITSET: i32 = 10;
const COMMAND: i32 = !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);

/// futex(2). Priority inheritance is refused: the kernel would change lock words while other
/// threads run. The C library then says ENOTSUP for such mutexes.
pub fn futex(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    if let Some(a) = answer {
        return Ok(Reply::Value(a.result));
    }
    let command = call.int(1) & COMMAND;
    Ok(Reply::Value(match command {
        WAIT | WAIT_BITSET => wait(task, call),
        WAKE | WAKE_BITSET | REQUEUE | CMP_REQUEUE => direct(call),
        WAKE_OP => {
            machine()
                .memory()
                .unguard(call.args[4], call.args[4].saturating_add(4));
            let r = direct(call);
            task.log.wrote(call.args[4], 4);
            r
        }
        _ => refuse(task, call, libc::ENOSYS),
    }))
}

fn wait(task: &mut Task, call: &Call) -> i64 {
    // A value that has changed already needs no switch: the kernel would say the same.
    match task.read::<4>(call.args[0]) {
        Err(e) => return e,
        Ok(word) if u32::from_le_bytes(word) != call.args[2] as u32 => {
            return -i64::from(libc::EAGAIN);
        }
        Ok(_) => {}
    }
    let result = blocking(task, call.nr, &call.args);
    interrupted(task, call, result)
}

fn direct(call: &Call) -> i64 {
    // SAFETY: wakes or moves waiters; the kernel touches guest words only.
    (unsafe { sys::syscall(u64::from(call.nr), call.args) }) as i64
}
