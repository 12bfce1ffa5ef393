//! Calls that make, end and wait for guest threads and processes.

use relive_host::sys;
use relive_kabi::Reports;
use relive_trace::{Ending, Kind};

use super::enter::blocking;
use super::fds;
use super::operation::{Operation, Outcome, Prepared, RecordedResult};
use crate::call::Call;
use crate::call::answer::Answer;
use crate::call::clone_args::CloneArgs;
use crate::call::reply::Reply;
use crate::failure::{CallError, Result, answered};
use crate::flow::{End, Flow};
use crate::ptrace::stop::StopPlace;
use crate::ptrace::{ends, waiting};
use crate::task::Task;
use crate::task::ending::{clear_id, end_thread, release_locks, still};
use crate::task::plain_task::NO_ROBUST_LIST;

/// Writes the descriptor of a child to the parent's memory (`CLONE_PIDFD`).
///
/// # Errors
/// A page cannot be opened.
pub fn give_pidfd(task: &mut Task, args: &CloneArgs, pidfd: i32) -> Result<()> {
    if !args.has(libc::CLONE_PIDFD) {
        return Ok(());
    }
    fds::created(task, pidfd);
    if answered(task.write(args.pidfd, &pidfd.to_le_bytes()))?.is_ok() {
        task.log.wrote(args.pidfd, 4);
    }
    Ok(())
}

/// wait4(2), waitid(2): a process of a replay that the guest has waited for must have ended by then.
pub struct Wait;

impl Operation for Wait {
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn perform(task: &mut Task, call: &Call, (): &mut ()) -> Result<i64> {
        waiting::wait(task, call)
    }

    fn apply(task: &mut Task, call: &Call, (): (), outcome: &Outcome<'_>) -> Result<i64> {
        if let Some(pid) = ended_child(task, call, outcome) {
            task.mode().reaped(pid)?;
        }
        Ok(outcome.result)
    }
}

/// The child whose end the call has reported to the guest; not one that was stopped or continued.
fn ended_child(task: &Task, call: &Call, outcome: &Outcome<'_>) -> Option<u32> {
    match call.row?.reports {
        Reports::Nothing => None,
        Reports::Status(argument) => {
            let pid = u32::try_from(outcome.result).ok().filter(|&pid| pid > 0)?;
            let options = call.arg(argument + 1) as i32;
            let ended = match outcome.written(task, call.arg(argument)) {
                Some(status) => {
                    let status = i32::from_le_bytes(status);
                    libc::WIFEXITED(status) || libc::WIFSIGNALED(status)
                }
                None => options & (libc::WUNTRACED | libc::WCONTINUED) == 0,
            };
            ended.then_some(pid)
        }
        Reports::Info(argument) => {
            // 32 bits each: `si_signo`, `si_errno`, `si_code`, padding, `si_pid`.
            let info: [u8; 20] = outcome.written(task, call.arg(argument))?;
            let word = |at: usize| info[at..].first_chunk().copied().map(i32::from_le_bytes);
            let (code, pid) = (word(8)?, word(16)?);
            let ended = matches!(code, libc::CLD_EXITED | libc::CLD_KILLED | libc::CLD_DUMPED);
            (ended && pid > 0).then_some(pid as u32)
        }
    }
}

/// exit(2): ends the calling thread.
pub fn exit(task: &mut Task, call: &Call, _: Option<&Answer>) -> Result<Reply> {
    if task.vforked.is_some() {
        return exit_group(task, call, None);
    }
    let code = call.int(0) as u32 & 0xff;
    ends::exits(task, code << 8, StopPlace::Entry)?;
    end_thread(task, call.int(0))?;
    Ok(Reply::Flow(Flow::ThreadEnd(call.int(0) & 0xff)))
}

/// exit_group(2).
pub fn exit_group(task: &mut Task, call: &Call, told: Option<&Answer>) -> Result<Reply> {
    if task.lodges {
        // The others in this memory are another process.
        return exit(task, call, told);
    }
    let code = call.int(0) & 0xff;
    ends::exits(task, (code as u32) << 8, StopPlace::Entry)?;
    if task.vforked.is_some() {
        // Its parent still uses this memory.
        clear_id(task)?;
    }
    still(task)?;
    release_locks(task)?;
    task.record(Kind::End {
        how: Ending::ProcessExit,
        code,
        steps: 0,
    })?;
    Ok(Reply::Flow(Flow::ProcessEnd(End::Code(code))))
}

/// set_tid_address(2).
pub fn set_tid_address(task: &mut Task, call: &Call, _: RecordedResult) -> Result<Reply> {
    task.clear_tid = call.args[0];
    Ok(Reply::Value(i64::from(task.tid)))
}

/// set_robust_list(2).
pub fn set_robust_list(task: &mut Task, call: &Call, _: RecordedResult) -> Result<Reply> {
    if call.args[1] != 24 {
        return Ok(Reply::Value(-i64::from(libc::EINVAL)));
    }
    task.robust = (call.args[0], call.args[1]);
    task.mode().host().robust_list(task.robust.0, task.robust.1);
    let mut state = task.process.state();
    state.robust.insert(task.index, (task.robust.0, task.tid));
    Ok(Reply::Value(0))
}

/// get_robust_list(2). The lists of other processes are not known here: EPERM, as for one that may not be traced.
pub fn get_robust_list(task: &mut Task, call: &Call) -> Result<i64> {
    let (head, len) = match robust_list_of(task, call.int(0) as u32) {
        Ok(list) => list,
        Err(errno) => return Ok(-i64::from(errno)),
    };
    let done = task
        .give(call.args[2], &len.to_le_bytes())
        .and_then(|()| task.give(call.args[1], &head.to_le_bytes()));
    done.map_or_else(CallError::result, |()| Ok(0))
}

fn robust_list_of(task: &Task, thread: u32) -> std::result::Result<(u64, u64), i32> {
    if thread == 0 || thread == task.tid {
        return Ok(task.robust);
    }
    let known = {
        let state = task.process.state();
        let mut lists = state.robust.values();
        lists.find(|(_, tid)| *tid == thread).copied()
    };
    if let Some((head, _)) = known {
        return Ok((head, NO_ROBUST_LIST.1));
    }
    let (mut head, mut len) = (0u64, 0u64);
    let args = [
        thread.into(),
        &raw mut head as u64,
        &raw mut len as u64,
        0,
        0,
        0,
    ];
    // SAFETY: writes the two words.
    let answer = unsafe { sys::syscall(libc::SYS_get_robust_list as u64, args) };
    // SAFETY: sends nothing, and asks for a thread of this process.
    let own = unsafe {
        sys::syscall(
            libc::SYS_tgkill as u64,
            [task.process.pid.into(), thread.into(), 0, 0, 0, 0],
        )
    };
    match (answer, own) {
        (..0, _) => Err(-answer as i32),
        (_, 0) => Ok(NO_ROBUST_LIST),
        _ => Err(libc::EPERM),
    }
}

/// sched_yield(2): other threads run first.
pub struct Yield;

impl Operation for Yield {
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn perform(task: &mut Task, call: &Call, (): &mut ()) -> Result<i64> {
        let mode = task.mode();
        mode.give_way(task, &mut |task| blocking(task, call.nr, &call.args))
    }
}

#[cfg(test)]
mod tests {
    use relive_trace::{Args, Refs, Syscall, Writes};

    use super::*;
    use crate::process::Process;
    use crate::process::state::ProcessState;
    use crate::tape::Tape;
    use crate::testing::machine;

    const AT: u64 = 0x1000;

    /// The child whose end a call has reported that returned `result` and wrote `bytes` at [`AT`].
    fn ended(nr: i64, args: [u64; 6], result: i64, bytes: &[u8]) -> Option<u32> {
        let process = Process::restore(ProcessState::new(0, 1));
        let task = Task::new(machine(), process, 0, 1, Tape::None);
        let call = Call::of(nr as u32, args);
        let slices = [(AT, bytes)];
        let answer = Answer::of(&Syscall {
            nr: call.nr,
            args: Args::new(call.used()),
            result,
            switched: false,
            order: None,
            stream: 0,
            writes: Writes::new(if bytes.is_empty() { &[] } else { &slices }),
            refs: Refs::NONE,
            extra: &[],
        });
        let told = Some(&answer);
        ended_child(&task, &call, &Outcome { result, told })
    }

    #[test]
    fn a_status_says_whether_the_child_has_ended() {
        let told = |status: i32| {
            let args = [u64::MAX, AT, libc::WUNTRACED as u64, 0, 0, 0];
            ended(libc::SYS_wait4, args, 70, &status.to_le_bytes())
        };
        assert_eq!(told(3 << 8), Some(70));
        assert_eq!(told(libc::SIGKILL), Some(70));
        assert_eq!(told(libc::SIGSTOP << 8 | 0x7f), None);
    }

    #[test]
    fn without_a_status_the_options_say_it() {
        let told = |options: i32, result| {
            let args = [u64::MAX, 0, options as u64, 0, 0, 0];
            ended(libc::SYS_wait4, args, result, &[])
        };
        assert_eq!(told(0, 70), Some(70));
        assert_eq!(told(libc::WUNTRACED, 70), None);
        assert_eq!(told(libc::WNOHANG, 0), None);
        assert_eq!(told(0, -i64::from(libc::ECHILD)), None);
    }

    #[test]
    fn a_siginfo_says_it_with_the_child() {
        let told = |code: i32, pid: i32| {
            let words = [libc::SIGCHLD, 0, code, 0, pid, 0, 0];
            let info = words.map(i32::to_le_bytes).concat();
            let args = [0, 0, AT, libc::WEXITED as u64, 0, 0];
            ended(libc::SYS_waitid, args, 0, &info)
        };
        assert_eq!(told(libc::CLD_EXITED, 70), Some(70));
        assert_eq!(told(libc::CLD_DUMPED, 70), Some(70));
        assert_eq!(told(libc::CLD_STOPPED, 70), None);
        assert_eq!(told(0, 0), None);
    }
}
