//! futex(2): the guest's threads wait for each other in the real kernel while recording.
//!
//! Priority-inheriting futexes are emulated: the kernel would write their words while other
//! threads run. Each step that changes a word is an event of its own, after which the call is
//! made again: what a sleeping thread has written must be there before others run.

use super::live::interrupted;
use super::{Answer, Call, ERESTART, Reply, blocking, refuse};
use crate::failure::Result;
use crate::machine::machine;
use crate::task::Task;
use relive_host::sys;

const WAIT: i32 = 0;
const WAKE: i32 = 1;
const REQUEUE: i32 = 3;
const CMP_REQUEUE: i32 = 4;
const WAKE_OP: i32 = 5;
const LOCK_PI: i32 = 6;
const UNLOCK_PI: i32 = 7;
const TRYLOCK_PI: i32 = 8;
const WAIT_BITSET: i32 = 9;
const WAKE_BITSET: i32 = 10;
const LOCK_PI2: i32 = 13;
const COMMAND: i32 = !(libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME);

/// The word of a priority-inheriting lock: its owner's thread id and two flags.
const WAITERS: u32 = 0x8000_0000;
const OWNER_DIED: u32 = 0x4000_0000;
const TID: u32 = 0x3fff_ffff;

/// futex(2).
pub fn futex(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    if let Some(a) = answer {
        return Ok(Reply::Value(a.result));
    }
    let command = call.int(1) & COMMAND;
    Ok(Reply::Value(match command {
        WAIT | WAIT_BITSET => wait(task, call),
        WAKE | WAKE_BITSET | REQUEUE | CMP_REQUEUE => direct(call),
        WAKE_OP => {
            unguard(call.args[4]);
            let r = direct(call);
            task.log.wrote(call.args[4], 4);
            r
        }
        LOCK_PI | LOCK_PI2 | UNLOCK_PI | TRYLOCK_PI if task.mode().traits().together => {
            unguard(call.args[0]);
            let result = blocking(task, call.nr, &call.args);
            interrupted(task, call, result)
        }
        LOCK_PI | LOCK_PI2 => lock(task, call).unwrap_or_else(|e| e),
        TRYLOCK_PI => try_lock(task, call).unwrap_or_else(|e| e),
        UNLOCK_PI => unlock(task, call).unwrap_or_else(|e| e),
        _ => refuse(call, libc::ENOSYS),
    }))
}

fn wait(task: &mut Task, call: &Call) -> i64 {
    if !call.args[0].is_multiple_of(4) {
        return -i64::from(libc::EINVAL);
    }
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

/// futex_waitv(2).
pub fn waitv(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    if let Some(a) = answer {
        return Ok(Reply::Value(a.result));
    }
    let result = blocking(task, call.nr, &call.args);
    Ok(Reply::Value(interrupted(task, call, result)))
}

/// The kernel is about to write a word.
fn unguard(word: u64) {
    machine().memory().unguard(word, word.saturating_add(4));
}

fn direct(call: &Call) -> i64 {
    // SAFETY: wakes or moves waiters; the kernel touches guest words only.
    (unsafe { sys::syscall(u64::from(call.nr), call.args) }) as i64
}

/// A result, or a negative error number.
type Step = std::result::Result<i64, i64>;

/// Takes the lock if nobody has it. `None`: somebody does, whose word this is.
fn acquire(task: &mut Task, at: u64, flags: u32) -> std::result::Result<Option<u32>, i64> {
    let word = task.read(at).map(u32::from_le_bytes)?;
    if word & TID == task.tid {
        return Err(-i64::from(libc::EDEADLK));
    }
    if word & TID != 0 {
        return Ok(Some(word));
    }
    set(task, at, task.tid | flags | word & (WAITERS | OWNER_DIED))?;
    Ok(None)
}

fn set(task: &mut Task, at: u64, word: u32) -> std::result::Result<(), i64> {
    task.write(at, &word.to_le_bytes())?;
    task.log.wrote(at, 4);
    Ok(())
}

/// FUTEX_LOCK_PI and FUTEX_LOCK_PI2.
fn lock(task: &mut Task, call: &Call) -> Step {
    let at = call.args[0];
    let Some(word) = acquire(task, at, 0)? else {
        return Ok(0);
    };
    if !crate::shm::alive(word & TID) {
        return Err(-i64::from(libc::ESRCH));
    }
    if word & WAITERS == 0 {
        // The owner must find this when it unlocks; then this thread sleeps.
        set(task, at, word | WAITERS)?;
        return Ok(ERESTART);
    }
    // The timeout is absolute: of the real time, or with FUTEX_LOCK_PI2 as a flag says.
    let clock = match call.int(1) & COMMAND {
        LOCK_PI => libc::FUTEX_CLOCK_REALTIME,
        _ => call.int(1) & libc::FUTEX_CLOCK_REALTIME,
    };
    let op = WAIT_BITSET | clock | call.int(1) & libc::FUTEX_PRIVATE_FLAG;
    let args = [
        at,
        op as u64,
        word.into(),
        call.args[3],
        0,
        u64::from(u32::MAX),
    ];
    let result = blocking(task, call.nr, &args);
    if interrupted(task, call, result) != result || result == -i64::from(libc::ETIMEDOUT) {
        return Ok(interrupted(task, call, result));
    }
    // Others may sleep still: the next unlock must look for them.
    match acquire(task, at, WAITERS)? {
        None => Ok(0),
        Some(_) => Ok(ERESTART),
    }
}

/// FUTEX_TRYLOCK_PI.
fn try_lock(task: &mut Task, call: &Call) -> Step {
    match acquire(task, call.args[0], 0)? {
        None => Ok(0),
        Some(_) => Err(-i64::from(libc::EAGAIN)),
    }
}

/// FUTEX_UNLOCK_PI: whoever waits first may have it, if nobody is faster.
fn unlock(task: &mut Task, call: &Call) -> Step {
    let at = call.args[0];
    let word = task.read(at).map(u32::from_le_bytes)?;
    if word & TID != task.tid {
        return Err(-i64::from(libc::EPERM));
    }
    set(task, at, 0)?;
    let op = WAKE | call.int(1) & libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: wakes a waiter; touches no memory.
    unsafe { sys::syscall(u64::from(call.nr), [at, op as u64, 1, 0, 0, 0]) };
    Ok(0)
}
