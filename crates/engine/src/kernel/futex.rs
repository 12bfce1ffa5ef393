//! futex(2): while recording, the guest's threads wait for each other in the kernel.
//!
//! Priority-inheriting futexes are emulated: the kernel would write their words while other
//! threads run. Threads that run together take turns from the first such call on. Each step that
//! changes a word is an event of its own, after which the call is made again: a thread's change to a
//! word must be in memory before it sleeps and others run.

use relive_host::sys;

use super::enter::{blocking, interrupted};
use super::operation::{Operation, Outcome, Prepared};
use super::refuse::refuse;
use super::resume::ERESTART;
use crate::call::Call;
use crate::failure::{CallError, CallResult, Result};
use crate::task::Task;

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
pub struct Futex;

/// The command of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// FUTEX_WAIT and FUTEX_WAIT_BITSET.
    Wait,
    /// To wake waiters or to move them; writes no word.
    Wake,
    /// FUTEX_WAKE_OP, which writes its second word.
    WakeOp,
    /// FUTEX_LOCK_PI and FUTEX_LOCK_PI2; the operation by which a thread sleeps until it can have the lock.
    Lock(i32),
    /// FUTEX_TRYLOCK_PI.
    TryLock,
    /// FUTEX_UNLOCK_PI; the operation that wakes the next waiter.
    Unlock(i32),
    /// None of these.
    Unknown,
}

impl Command {
    fn of(call: &Call) -> Self {
        let op = call.int(1);
        let (clock, private) = (
            op & libc::FUTEX_CLOCK_REALTIME,
            op & libc::FUTEX_PRIVATE_FLAG,
        );
        match op & COMMAND {
            WAIT | WAIT_BITSET => Self::Wait,
            WAKE | WAKE_BITSET | REQUEUE | CMP_REQUEUE => Self::Wake,
            WAKE_OP => Self::WakeOp,
            // The timeout is absolute: of the real time, or with FUTEX_LOCK_PI2 as a flag says.
            LOCK_PI => Self::Lock(WAIT_BITSET | libc::FUTEX_CLOCK_REALTIME | private),
            LOCK_PI2 => Self::Lock(WAIT_BITSET | clock | private),
            TRYLOCK_PI => Self::TryLock,
            UNLOCK_PI => Self::Unlock(WAKE | private),
            _ => Self::Unknown,
        }
    }
}

impl Operation for Futex {
    type Plan = Command;

    fn prepare(task: &mut Task, call: &Call) -> Prepared<Command> {
        let command = Command::of(call);
        if let Command::Lock(_) = command {
            check_timeout(task, call.args[3])?;
        }
        Ok(command)
    }

    /// A waker's operation comes before the kernel's.
    fn enter(task: &mut Task, call: &Call, command: &Command) -> Result<()> {
        if matches!(
            command,
            Command::Lock(_) | Command::TryLock | Command::Unlock(_)
        ) {
            task.mode().order().takes_turns(task)?;
        }
        match command {
            Command::Wait => Ok(()),
            _ => task.mode().order().touch(task, &mut [call.args[0]]),
        }
    }

    /// A waiter's comes behind it.
    fn apply(task: &mut Task, call: &Call, command: Command, outcome: &Outcome<'_>) -> Result<i64> {
        if matches!(command, Command::Wait | Command::Lock(_)) {
            task.mode().order().touch(task, &mut [call.args[0]])?;
        }
        Ok(outcome.result)
    }

    fn perform(task: &mut Task, call: &Call, command: &mut Command) -> Result<i64> {
        match *command {
            Command::Wait => wait(task, call),
            Command::Wake => {
                let woken = on_guarded(task, call, words, |_, call| Ok(direct(call)))?;
                if woken > 0 {
                    task.mode().woke(task);
                }
                Ok(woken)
            }
            Command::WakeOp => {
                let r = write_word(task, call);
                task.log.wrote(call.args[4], 4);
                r
            }
            Command::Lock(_) | Command::TryLock | Command::Unlock(_) if task.traits().together => {
                // Nothing is recorded (`relive run`): all others take turns by now.
                on_guarded(task, call, words, sleep)
            }
            Command::Lock(op) => lock(task, call, op).or_else(CallError::result),
            Command::TryLock => try_lock(task, call).or_else(CallError::result),
            Command::Unlock(op) => unlock(task, call, op).or_else(CallError::result),
            Command::Unknown => Ok(refuse(call, libc::ENOSYS)),
        }
    }
}

/// futex_waitv(2).
pub struct Waitv;

impl Operation for Waitv {
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn perform(task: &mut Task, call: &Call, (): &mut ()) -> Result<i64> {
        on_guarded(task, call, listed_words, sleep)
    }
}

/// Makes the call as it is; other threads run meanwhile.
fn sleep(task: &mut Task, call: &Call) -> Result<i64> {
    let result = blocking(task, call.nr, &call.args)?;
    Ok(interrupted(task, call, result))
}

fn wait(task: &mut Task, call: &Call) -> Result<i64> {
    if !call.args[0].is_multiple_of(4) {
        return Ok(-i64::from(libc::EINVAL));
    }
    // A value that has changed already needs no switch: the kernel would say the same.
    match task.read::<4>(call.args[0]) {
        Err(e) => return Ok(e),
        Ok(word) if u32::from_le_bytes(word) != call.args[2] as u32 => {
            return Ok(-i64::from(libc::EAGAIN));
        }
        Ok(_) => {}
    }
    on_guarded(task, call, words, sleep)
}

/// The words by which a call names its waiters.
fn words(_: &Task, call: &Call) -> Vec<u64> {
    match call.int(1) & COMMAND {
        REQUEUE | CMP_REQUEUE => vec![call.args[0], call.args[4]],
        _ => vec![call.args[0]],
    }
}

/// The words of futex_waitv(2).
fn listed_words(task: &Task, call: &Call) -> Vec<u64> {
    /// `struct futex_waitv`, the place of its word's address, and the most of them in a call.
    const ENTRY: (u64, u64, u64) = (24, 8, 128);
    let at = |i| call.args[0].wrapping_add(ENTRY.0 * i + ENTRY.1);
    let entries = 0..call.args[1].min(ENTRY.2);
    entries.filter_map(|i| task.read_u64(at(i)).ok()).collect()
}

/// Makes a call again whose words lie on pages with code, which another thread may guard at any moment.
/// The kernel finds no word that processes could share on an anonymous page that it may not write, and
/// writes those of locks itself (where threads run together): it answers EFAULT, and has done nothing yet.
fn on_guarded(
    task: &mut Task,
    call: &Call,
    words: fn(&Task, &Call) -> Vec<u64>,
    make: fn(&mut Task, &Call) -> Result<i64>,
) -> Result<i64> {
    const FAULT: i64 = -(libc::EFAULT as i64);
    let mut result = make(task, call)?;
    let mut before = None;
    while result == FAULT {
        let words = words(task, call);
        let mut memory = task.machine().memory();
        for word in words {
            memory.unguard(word, word.saturating_add(4))?;
        }
        // Another thread may have opened the page since the kernel looked at it.
        let openings = Some(memory.openings());
        if openings == before {
            break;
        }
        before = openings;
        drop(memory);
        result = make(task, call)?;
    }
    Ok(result)
}

/// As [`direct`], for a call that does not sleep and writes its second word. Holds the lock of the
/// memory, so that no other thread guards the word's page meanwhile.
fn write_word(task: &Task, call: &Call) -> Result<i64> {
    let mut memory = task.machine().memory();
    memory.unguard(call.args[0], call.args[0].saturating_add(4))?;
    memory.unguard(call.args[4], call.args[4].saturating_add(4))?;
    Ok(direct(call))
}

fn direct(call: &Call) -> i64 {
    // SAFETY: wakes or moves waiters; the kernel touches guest words only.
    (unsafe { sys::syscall(u64::from(call.nr), call.args) }) as i64
}

/// Takes the lock if it is free: `None`. Otherwise the word, with its owner.
fn acquire(task: &mut Task, at: u64, flags: u32) -> CallResult<Option<u32>> {
    let word = task.read(at).map(u32::from_le_bytes)?;
    if word & TID == task.tid {
        return Err(libc::EDEADLK.into());
    }
    if word & TID != 0 {
        return Ok(Some(word));
    }
    set(task, at, task.tid | flags | word & (WAITERS | OWNER_DIED))?;
    Ok(None)
}

fn set(task: &mut Task, at: u64, word: u32) -> CallResult<()> {
    task.change_word(at, |_| Some(word))?;
    task.log.wrote(at, 4);
    Ok(())
}

/// The kernel looks at a timeout first, also where nobody sleeps.
fn check_timeout(task: &Task, at: u64) -> Prepared<()> {
    if at == 0 {
        return Ok(());
    }
    let (Ok(seconds), Ok(nanoseconds)) = (task.read_u64(at), task.read_u64(at.wrapping_add(8)))
    else {
        return Err(-i64::from(libc::EFAULT));
    };
    match seconds.cast_signed() >= 0 && nanoseconds < 1_000_000_000 {
        true => Ok(()),
        false => Err(-i64::from(libc::EINVAL)),
    }
}

/// FUTEX_LOCK_PI and FUTEX_LOCK_PI2, which sleep by `op`.
fn lock(task: &mut Task, call: &Call, op: i32) -> CallResult<i64> {
    let at = call.args[0];
    let Some(word) = acquire(task, at, 0)? else {
        return Ok(0);
    };
    if !crate::shm::alive(word & TID) {
        return Err(libc::ESRCH.into());
    }
    if word & WAITERS == 0 {
        // The owner must find this when it unlocks; then this thread sleeps.
        set(task, at, word | WAITERS)?;
        return Ok(ERESTART);
    }
    let args = [
        at,
        op as u64,
        word.into(),
        call.args[3],
        0,
        u64::from(u32::MAX),
    ];
    let result = blocking(task, call.nr, &args)?;
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
fn try_lock(task: &mut Task, call: &Call) -> CallResult<i64> {
    match acquire(task, call.args[0], 0)? {
        None => Ok(0),
        Some(_) => Err(libc::EAGAIN.into()),
    }
}

/// FUTEX_UNLOCK_PI: wakes the first waiter, which gets the lock unless another thread takes it first.
fn unlock(task: &mut Task, call: &Call, op: i32) -> CallResult<i64> {
    let at = call.args[0];
    let word = task.read(at).map(u32::from_le_bytes)?;
    if word & TID != task.tid {
        return Err(libc::EPERM.into());
    }
    set(task, at, 0)?;
    // SAFETY: wakes a waiter; touches no memory.
    unsafe { sys::syscall(u64::from(call.nr), [at, op as u64, 1, 0, 0, 0]) };
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(op: i32) -> Command {
        Command::of(&Call::of(
            libc::SYS_futex as u32,
            [0x1000, op as u64, 0, 0, 0, 0],
        ))
    }

    #[test]
    fn flags_do_not_hide_the_command() {
        const PRIVATE: i32 = libc::FUTEX_PRIVATE_FLAG;
        const REAL: i32 = libc::FUTEX_CLOCK_REALTIME;
        assert_eq!(command(WAIT | PRIVATE), Command::Wait);
        assert_eq!(command(WAIT_BITSET | PRIVATE | REAL), Command::Wait);
        assert_eq!(command(CMP_REQUEUE | PRIVATE), Command::Wake);
        assert_eq!(command(WAKE_OP), Command::WakeOp);
        assert_eq!(command(TRYLOCK_PI | PRIVATE), Command::TryLock);
        assert_eq!(
            command(UNLOCK_PI | PRIVATE),
            Command::Unlock(WAKE | PRIVATE)
        );
        // FUTEX_FD, FUTEX_WAIT_REQUEUE_PI, FUTEX_CMP_REQUEUE_PI.
        for unknown in [2, 11, 12, 14] {
            assert_eq!(command(unknown), Command::Unknown);
        }
    }

    #[test]
    fn the_first_lock_call_knows_the_real_time_only() {
        const REAL: i32 = libc::FUTEX_CLOCK_REALTIME;
        assert_eq!(command(LOCK_PI), Command::Lock(WAIT_BITSET | REAL));
        assert_eq!(command(LOCK_PI2), Command::Lock(WAIT_BITSET));
        assert_eq!(command(LOCK_PI2 | REAL), Command::Lock(WAIT_BITSET | REAL));
    }
}
