//! The signals by which tracers and tracees wake each other's host threads, and the signals that they
//! stand for. A guest must never see one.

use relive_host::sys;
use rustix::process::{Pid, Signal, kill_process};

use super::slots::sent_by;
use crate::siginfo::{SigInfo, signo};

/// Codes that neither the kernel nor the C library sends.
const POKE: i32 = -0x5254;
const STOPS: i32 = -0x5255;
const CHANGED: i32 = -0x5256;
const NOTHING: i32 = -0x5257;

/// A signal as the guest has it.
pub enum Meaning {
    /// It is one of the guest's.
    Guest(SigInfo),
    /// It is none: a look at the slots is due.
    Look,
    /// It is none.
    Nothing,
}

/// The meaning of a signal that the host has noted.
#[must_use]
pub fn meaning(mut info: SigInfo) -> Meaning {
    let code = i32::from_le_bytes([info[8], info[9], info[10], info[11]]);
    let sig = signo(&info);
    let mut becomes = |sig: i32, code: i32| {
        info[0..4].copy_from_slice(&sig.to_le_bytes());
        info[8..12].copy_from_slice(&code.to_le_bytes());
        Meaning::Guest(info)
    };
    match (code, sig) {
        (POKE, libc::SIGTRAP) => Meaning::Look,
        (NOTHING, _) => Meaning::Nothing,
        (STOPS, libc::SIGTRAP) => becomes(libc::SIGSTOP, libc::SI_USER),
        (CHANGED, libc::SIGCHLD) => becomes(libc::SIGCHLD, libc::CLD_TRAPPED),
        _ => Meaning::Guest(info),
    }
}

/// Whether a signal is the news of a tracee's stop.
#[must_use]
pub fn is_news(info: &SigInfo) -> bool {
    signo(info) == libc::SIGCHLD && info[8..12] == CHANGED.to_le_bytes()
}

fn send(nr: i64, args: [u64; 6]) -> bool {
    // SAFETY: the kernel reads the siginfo, which outlives the call; the handler of hosts takes it.
    (unsafe { sys::syscall(nr as u64, args) }) == 0
}

fn to_thread(process: u32, thread: u32, sig: i32, info: &SigInfo) -> bool {
    let args = [
        process.into(),
        thread.into(),
        sig as u64,
        info.as_ptr() as u64,
        0,
        0,
    ];
    send(libc::SYS_rt_tgsigqueueinfo, args)
}

fn to_process(process: u32, sig: i32, info: &SigInfo) -> bool {
    let args = [process.into(), sig as u64, info.as_ptr() as u64, 0, 0, 0];
    send(libc::SYS_rt_sigqueueinfo, args)
}

/// Kills a process, if it is there.
pub fn kill(process: u32) {
    if let Some(pid) = Pid::from_raw(process as i32) {
        // It may have ended.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Lets a thread look at its slot at its next safe point; a call in which it sleeps is cut short.
pub fn poke(process: u32, thread: u32) {
    to_thread(
        process,
        thread,
        libc::SIGTRAP,
        &sent_by(libc::SIGTRAP, POKE, process),
    );
}

/// Wakes a process that the kernel has stopped, without a signal for its guest.
pub fn wake_stopped(process: u32) {
    to_process(
        process,
        libc::SIGCONT,
        &sent_by(libc::SIGCONT, NOTHING, process),
    );
}

/// Sends SIGSTOP to a traced thread, whose host must not stop.
pub fn stops(process: u32, thread: u32, sender: u32) -> bool {
    to_thread(
        process,
        thread,
        libc::SIGTRAP,
        &sent_by(libc::SIGTRAP, STOPS, sender),
    )
}

/// Tells a tracer by SIGCHLD that a tracee has stopped.
pub fn changed(tracer: u32, thread: u32, status: u32) {
    let mut info = sent_by(libc::SIGCHLD, CHANGED, thread);
    info[24..28].copy_from_slice(&(status & 0x7f).to_le_bytes());
    to_process(tracer, libc::SIGCHLD, &info);
}
