//! A thread of a parallel replay, from its first event to its last, and the end of the process. Must never end the
//! process before all tapes have been followed to their ends.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use relive_host::{enter, signal, sys};

use super::beside::{Beside, Left};
use super::newborn::ThreadStart;
use super::remedy::remedied;
use super::siblings::{Progress, SIBLINGS};
use crate::failure::{Failure, FailureClass, Result, die};
use crate::guide::protocol::Ended;
use crate::machine::Machine;
use crate::modes::replay::session::{Session, check_cut_off};
use crate::modes::replay::start;
use crate::modes::replay::stepper::process::Stepper;
use crate::shm::shared;
use crate::task::Task;

/// How often a thread that has nothing to do looks whether that has changed.
const LOOK: Duration = Duration::from_micros(500);

/// Replays the process of the trace.
///
/// # Errors
/// Divergence, a damaged trace.
pub fn main(machine: &'static Machine) -> Result<Infallible> {
    let mut stepper = start::beside_others(machine)?;
    let me = SIBLINGS.add(stepper.task.slot);
    is_here(&mut stepper.task);
    me.begins(&stepper.task);
    match follow(&mut stepper, &mut Beside::new(me, host_thread)) {
        Ok(code) => {
            if let Some(member) = stepper.task.member.take() {
                machine.registry.withdraw(member, false);
            }
            // SAFETY: the first thread's stack is not needed any more; the process lives on with the others.
            unsafe { sys::exit_thread(code) }
        }
        Err(failure) => Err(remedied(failure)),
    }
}

/// The member of the task is this very host thread: the recorded ids are not its own.
fn is_here(task: &mut Task) {
    if let Some(member) = &task.member {
        member.runs_as(std::process::id(), sys::gettid());
    }
}

/// A host thread of a new thread.
pub extern "C" fn host_thread(birth: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: made by `newborn::start` for this thread alone.
    let ThreadStart { machine, mut task } = *unsafe { Box::from_raw(birth.cast::<ThreadStart>()) };
    let member = task.member.clone();
    if let Err(failure) = begin(machine, &mut task).and_then(|session| {
        let mut stepper = Stepper::new(session, task);
        let me = SIBLINGS.get(stepper.task.slot);
        let me = me.ok_or_else(|| Failure::internal("a thread has its place"))?;
        me.begins(&stepper.task);
        follow(&mut stepper, &mut Beside::new(me, host_thread)).map(drop)
    }) {
        die(&remedied(failure));
    }
    if let Some(member) = member {
        // No fork waits for it to leave the C library.
        machine.registry.withdraw(member, false);
    }
    std::ptr::null_mut()
}

/// Gets the calling host thread ready for its task.
fn begin(machine: &'static Machine, task: &mut Task) -> Result<Session> {
    // SAFETY: the context lives in the task's box, which this thread keeps until it ends.
    unsafe { enter::adopt(&raw mut *task.ctx) };
    signal::install_stack().map_err(|_| FailureClass::NoMemory)?;
    is_here(task);
    Session::beside_others(machine, task.process.index)
}

/// Runs a thread to its end, and returns its code.
fn follow(stepper: &mut Stepper, beside: &mut Beside) -> Result<i32> {
    loop {
        if stepper.run(beside)?.is_some() {
            rest(stepper, beside)?;
            continue;
        }
        match (beside.left, stepper.ended) {
            (Left::Over(code), _) => {
                over(stepper, beside, code)?;
                return Ok(code);
            }
            (Left::Stays, _) => stay(stepper, beside)?,
            (Left::Ends, Some(how)) => end(stepper, how),
            (left, ended) => {
                return Err(Failure::internal(format!(
                    "a thread of a replay has left its run: {left:?}, {ended:?}"
                )));
            }
        }
    }
}

/// The thread has come to the end of its tape: waits until another one waits for an operation of it.
fn rest(stepper: &mut Stepper, beside: &Beside) -> Result<()> {
    let me = Arc::clone(&beside.me);
    me.stands(Progress::Rests);
    while !me.is_wanted() {
        look(stepper)?;
    }
    me.stands(Progress::Runs);
    Ok(())
}

/// The thread stays in a call that did not return, until another one ends the process.
fn stay(stepper: &mut Stepper, beside: &Beside) -> Result<()> {
    beside.me.stands(Progress::Stays);
    loop {
        look(stepper)?;
    }
}

/// Ends the process, once: another thread may have begun to.
fn end(stepper: &Stepper, how: Ended) -> ! {
    if SIBLINGS.ends_process() {
        stepper.session.end(how);
    }
    loop {
        std::thread::sleep(LOOK);
    }
}

/// Sleeps at rest. The recording ends here if all threads do so: it was cut off.
fn look(stepper: &mut Stepper) -> Result<()> {
    if shared().is_some_and(|shm| shm.failure().is_some()) {
        return Err(FailureClass::Elsewhere.into());
    }
    if is_cut_off() {
        check_cut_off(stepper.task.process.index)?;
        end(stepper, Ended::CutOff);
    }
    stepper.task.while_away(&mut || {
        std::thread::sleep(LOOK);
        0
    });
    Ok(())
}

/// Whether no thread has anything left to do, and not all have ended.
fn is_cut_off() -> bool {
    SIBLINGS.all_alive(|s| match s.standing() {
        Progress::Rests => !s.is_wanted(),
        Progress::Stays | Progress::Over => true,
        Progress::Runs => false,
    })
}

/// The thread has ended; the process does with its last one.
fn over(stepper: &mut Stepper, beside: &Beside, code: i32) -> Result<()> {
    if SIBLINGS.over(&beside.me) {
        end(stepper, Ended::Code(code));
    }
    Ok(())
}
