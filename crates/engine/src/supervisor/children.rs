//! The processes that a supervisor starts and waits for: a host process is its child, and so are
//! the orphans that it leaves. Nothing here may interpret how a child has ended.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use relive_host::sent_signal::for_programs;
use relive_host::signal::{Disposition, set_disposition};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, set_child_subreaper,
    set_parent_process_death_signal, wait, waitid,
};
use rustix::stdio::{dup2_stderr, dup2_stdout};

use crate::brief_process;
use crate::failure::{Failure, Result};
use crate::start_data::Boot;

/// Whether orphans of the tree become children of this process, which waits for them then.
pub fn inherit_orphans(on: bool) {
    // Any process stands for yes. No kernel refuses.
    let _ = set_child_subreaper(on.then_some(Pid::INIT));
}

/// The keyboard's interrupt is for this process alone. Process-wide: so are the actions of signals.
static KEEPS_KEYBOARD: AtomicBool = AtomicBool::new(false);

/// From here on host processes ignore the keyboard's interrupt, which goes to the whole group: this process ends
/// them in its time.
pub fn keep_keyboard() {
    KEEPS_KEYBOARD.store(true, Ordering::Relaxed);
}

/// Starts a host process, with more variables of Relive's own. The standard output and error of a
/// `silent` one are discarded.
///
/// # Errors
/// No process can be made.
pub fn start(
    boot: &Boot,
    shown: &[Vec<u8>],
    silent: bool,
    extra: &[(&str, String)],
) -> Result<i32> {
    if !Path::new("/proc/self/exe").exists() {
        return Err(Failure::setup(
            "there is no /proc here, and Relive needs it: mount it",
        ));
    }
    let cannot = |e: std::io::Error| Failure::setup(format!("cannot start a process: {e}"));
    let nowhere = silent.then(|| File::options().read(true).write(true).open("/dev/null"));
    let nowhere = nowhere.transpose().map_err(cannot)?;
    brief_process::spawn(libc::SIGCHLD, &|| {
        let refused = become_host(boot, shown, nowhere.as_ref(), extra);
        crate::failure::complain(&format!("cannot start the host process: {refused}"));
        crate::failure::EXIT_STATUS
    })
    .map_err(cannot)
}

/// The child's part; returns only why it cannot be done.
fn become_host(
    boot: &Boot,
    shown: &[Vec<u8>],
    nowhere: Option<&File>,
    extra: &[(&str, String)],
) -> std::io::Error {
    if let Some(nowhere) = nowhere
        && let Err(e) = dup2_stdout(nowhere).and_then(|()| dup2_stderr(nowhere))
    {
        return e.into();
    }
    if KEEPS_KEYBOARD.load(Ordering::Relaxed) {
        // The parent's actions are others, as it has not lent them.
        set_disposition(libc::SIGINT, Disposition::Ignore);
    }
    // A program whose recorder has been killed must not go on unrecorded.
    if let Err(e) = die_with_parent() {
        return e;
    }
    let Err(e) = boot.exec(shown, crate::descriptor_limit::of_program(), extra);
    std::io::Error::from_raw_os_error(e)
}

/// This process is killed when the one that has started it ends (prctl(2)).
fn die_with_parent() -> std::io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(Into::into)
}

/// The process of a command is killed when this one ends.
pub fn dies_with_parent(command: &mut Command) {
    // SAFETY: a system call, which may be made between fork and exec.
    unsafe { command.pre_exec(die_with_parent) };
}

/// The process of a command leaves signals that go to the whole group to the program that is recorded.
pub fn leaves_group_signals(command: &mut Command) {
    let leave = || {
        for signal in [libc::SIGINT, libc::SIGQUIT]
            .into_iter()
            .chain(for_programs())
        {
            set_disposition(signal, Disposition::Ignore);
        }
        Ok(())
    };
    // SAFETY: system calls, which may be made between fork and exec.
    unsafe { command.pre_exec(leave) };
}

/// One child that has ended, and how (wait(2)).
pub fn reap() -> Option<(i32, i32)> {
    let (pid, status) = wait(WaitOptions::NOHANG).ok()??;
    Some((pid.as_raw_nonzero().get(), status.as_raw()))
}

/// Waits for the ends of all children.
pub fn reap_all() {
    while wait(WaitOptions::empty()).is_ok() {}
}

/// Looks, and leaves the child to be waited for.
const LOOK: WaitIdOptions = WaitIdOptions::EXITED
    .union(WaitIdOptions::NOHANG)
    .union(WaitIdOptions::NOWAIT);

/// Whether there are children, which orphans of the tree are too; also such that have ended and
/// have not been waited for.
pub fn has_children() -> bool {
    waitid(WaitId::All, LOOK).is_ok()
}

/// Whether there are children besides these (proc_tid_children(5)); where the kernel does not list them, whether there
/// are any.
pub fn has_children_besides(known: &[u32]) -> bool {
    let others = |list: String| {
        let mut children = list.split_whitespace().filter_map(|pid| pid.parse().ok());
        children.any(|pid: u32| !known.contains(&pid))
    };
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let mut lists = threads
        .flatten()
        .map(|thread| std::fs::read_to_string(thread.path().join("children")));
    has_children() && lists.any(|list| list.map_or(true, others))
}

/// Kills a child that has not been waited for; another process with its number is left alone.
pub fn kill(pid: i32) {
    let Some(pid) = Pid::from_raw(pid) else {
        return;
    };
    if waitid(WaitId::Pid(pid), LOOK).is_ok() {
        // It may have ended: it keeps its number until it is waited for.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// The signal that has ended a child which has not been waited for: 0 if it ended by itself, `None`
/// if it runs.
pub fn ended_by(pid: i32) -> Option<i32> {
    let status = waitid(WaitId::Pid(Pid::from_raw(pid)?), LOOK).ok()??;
    Some(status.terminating_signal().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ended_child_remains_one_until_it_is_waited_for() {
        let mut child = std::process::Command::new("true").spawn().expect("a child");
        let pid = Pid::from_child(&child);
        let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        waitid(WaitId::Pid(pid), ended).expect("it ends");
        assert!(has_children());
        assert_eq!(ended_by(child.id() as i32), Some(0));
        assert!(child.wait().expect("it has not been waited for").success());
        assert_eq!(ended_by(child.id() as i32), None);
    }
}
