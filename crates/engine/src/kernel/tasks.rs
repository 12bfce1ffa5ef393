//! Calls that make, end and wait for guest threads and processes.

use relive_kabi::Reports;
use relive_trace::{Ending, Kind};

use super::clone::CloneArgs;
use super::{Answer, Call, Reply, fds};
use crate::failure::Result;
use crate::task::{End, Flow, Task};

/// Tells the parent the descriptor of its child.
pub fn give_pidfd(task: &mut Task, args: &CloneArgs, pidfd: i32) {
    if !args.has(libc::CLONE_PIDFD) {
        return;
    }
    fds::created(task, pidfd);
    if task.write(args.pidfd, &pidfd.to_le_bytes()).is_ok() {
        task.log.wrote(args.pidfd, 4);
    }
}

/// fork(2).
pub fn fork(task: &mut Task, _: &Call, answer: Option<&Answer>) -> Result<Reply> {
    task.mode().fork(task, &CloneArgs::fork(), answer)
}

/// wait4(2), waitid(2).
///
/// # Errors
/// A process of the replay is gone.
pub fn wait(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    let Some(answer) = answer else {
        return Ok(Reply::Value(super::generic(task, call)));
    };
    if let Some(pid) = ended_child(call, answer) {
        task.mode().reaped(pid)?;
    }
    Ok(Reply::Value(answer.result))
}

/// Of which child the guest was told that it has ended; not that it was stopped or goes on.
fn ended_child(call: &Call, answer: &Answer) -> Option<u32> {
    let written = |argument: u8| {
        let mut writes = answer.writes();
        writes.find_map(|(at, bytes)| (at == call.arg(argument)).then_some(bytes))
    };
    let word = |bytes: &[u8], at: usize| {
        let bytes = bytes.get(at..at + 4)?.try_into().ok()?;
        Some(i32::from_le_bytes(bytes))
    };
    match call.row?.reports {
        Reports::Nothing => None,
        Reports::Status(argument) => {
            let pid = u32::try_from(answer.result).ok().filter(|&pid| pid > 0)?;
            let options = call.arg(argument + 1) as i32;
            let ended = match written(argument) {
                Some(status) => {
                    let status = word(status, 0)?;
                    libc::WIFEXITED(status) || libc::WIFSIGNALED(status)
                }
                None => options & (libc::WUNTRACED | libc::WCONTINUED) == 0,
            };
            ended.then_some(pid)
        }
        Reports::Info(argument) => {
            let info = written(argument)?;
            let (code, pid) = (word(info, 8)?, word(info, 12)?);
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
    task.record(Kind::End {
        how: Ending::ThreadExit,
        code: call.int(0),
        steps: 0,
    });
    leave(task);
    Ok(Reply::Flow(Flow::ThreadEnd(call.int(0) & 0xff)))
}

/// What the kernel does for a thread that ends: robust locks, the cleared thread id.
pub fn leave(task: &mut Task) {
    for at in super::robust::release(task, task.robust.0, task.tid) {
        task.mode().host().wake(at);
    }
    task.process.state().robust.remove(&task.index);
    task.mode().host().leaves();
    clear_id(task);
}

fn clear_id(task: &Task) {
    if task.clear_tid != 0 && task.write(task.clear_tid, &[0; 4]).is_ok() {
        task.mode().host().wake(task.clear_tid);
    }
}

/// What the kernel does for all threads of a process that ends: robust locks, which may be in
/// memory shared with other processes.
pub fn release_locks(task: &Task) {
    let lists: Vec<(u64, u32)> = task.process.state().robust.values().copied().collect();
    for (head, tid) in lists {
        for at in super::robust::release(task, head, tid) {
            task.mode().host().wake(at);
        }
    }
}

/// Whether a thread of the process holds a robust lock.
pub fn holds_locks(task: &Task) -> bool {
    let state = task.process.state();
    let mut heads = state.robust.values();
    heads.any(|&(head, _)| super::robust::holds(task, head))
}

/// exit_group(2).
pub fn exit_group(task: &mut Task, call: &Call, _: Option<&Answer>) -> Result<Reply> {
    let code = call.int(0) & 0xff;
    if task.vforked.is_some() {
        // Others see its memory still.
        clear_id(task);
    }
    release_locks(task);
    task.record(Kind::End {
        how: Ending::ProcessExit,
        code,
        steps: 0,
    });
    Ok(Reply::Flow(Flow::ProcessEnd(End::Code(code))))
}

/// set_tid_address(2).
pub fn set_tid_address(task: &mut Task, call: &Call, _: Option<&Answer>) -> Result<Reply> {
    task.clear_tid = call.args[0];
    Ok(Reply::Value(i64::from(task.tid)))
}

/// set_robust_list(2).
pub fn set_robust_list(task: &mut Task, call: &Call, _: Option<&Answer>) -> Result<Reply> {
    if call.args[1] != 24 {
        return Ok(Reply::Value(-i64::from(libc::EINVAL)));
    }
    task.robust = (call.args[0], call.args[1]);
    task.mode().host().robust_list(task.robust.0, task.robust.1);
    let mut state = task.process.state();
    state.robust.insert(task.index, (task.robust.0, task.tid));
    Ok(Reply::Value(0))
}

/// get_robust_list(2), of the calling thread only.
pub fn get_robust_list(task: &mut Task, call: &Call, _: Option<&Answer>) -> Result<Reply> {
    if call.int(0) != 0 && call.int(0) != task.tid as i32 {
        return Ok(Reply::Value(-i64::from(libc::EPERM)));
    }
    let (head, len) = task.robust;
    for (at, value) in [(call.args[1], head), (call.args[2], len)] {
        if let Err(e) = task.write(at, &value.to_le_bytes()) {
            return Ok(Reply::Value(e));
        }
        task.log.wrote(at, 8);
    }
    Ok(Reply::Value(0))
}

/// sched_yield(2): others first.
pub fn sched_yield(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    if let Some(a) = answer {
        return Ok(Reply::Value(a.result));
    }
    let mode = task.mode();
    let result = mode.give_way(task, &mut |task| super::blocking(task, call.nr, &call.args));
    Ok(Reply::Value(result))
}
