//! The kernel's ids of threads and processes as the supervisor knows them. In a pid namespace of its own a
//! process has other ids for itself: those are the guest's. All ids in the shared memory are the supervisor's. Must
//! never be shown to the guest.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

use relive_host::sys;
use rustix::fs::{Dir, Mode, OFlags, open, openat};
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};

use crate::descriptor_limit::Room;

/// No process has this id.
const NOBODY: u32 = i32::MAX as u32;

/// The descriptor of the supervisor's `/proc`, where ids may differ; −1 elsewhere. Process-wide: an address
/// space has one, also before it has a machine, and in its signal handlers.
static PROC: AtomicI32 = AtomicI32::new(-1);

/// The processes of this address space, or their children, may have other ids than the supervisor knows. They are
/// asked of `proc`, a descriptor of its `/proc`, which stays open.
pub fn differ(proc: RawFd) {
    PROC.store(proc, Ordering::Release);
}

/// The supervisor's `/proc`, where ids may differ.
fn proc() -> Option<BorrowedFd<'static>> {
    let fd = PROC.load(Ordering::Acquire);
    // SAFETY: a descriptor of the host's, which is never closed while the process lives.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Whether ids may differ.
#[must_use]
pub fn may_differ() -> bool {
    proc().is_some()
}

/// The parent of this process, as this process knows it.
#[must_use]
pub fn parent() -> u32 {
    getppid().map_or(0, |pid| pid.as_raw_pid() as u32)
}

/// The calling thread.
#[must_use]
pub fn thread() -> u32 {
    own().map_or_else(sys::gettid, |(_, thread)| thread)
}

/// The same; the thread knows itself by the id `tid`.
#[must_use]
pub fn thread_of(tid: u32) -> u32 {
    own().map_or(tid, |(_, thread)| thread)
}

/// The calling process.
#[must_use]
pub fn process() -> u32 {
    own().map_or_else(std::process::id, |(process, _)| process)
}

/// The calling process and thread, where ids may differ.
fn own() -> Option<(u32, u32)> {
    let proc = proc()?;
    let mut buffer = [0; 64];
    // A link is read without a descriptor, and without memory.
    let length = rustix::fs::readlinkat_raw(proc, c"thread-self", &mut buffer[..])
        .expect("the supervisor's /proc has each of its processes");
    parse(&buffer[..length])
}

/// The ids in the target of `/proc/thread-self`: `PID/task/TID`.
fn parse(link: &[u8]) -> Option<(u32, u32)> {
    let mut parts = std::str::from_utf8(link).ok()?.split('/');
    let process = parts.next()?.parse().ok()?;
    let thread = parts.nth(1)?.parse().ok()?;
    Some((process, thread))
}

/// The process that the calling one knows by the id `pid`.
#[must_use]
pub fn of(pid: u32) -> u32 {
    match proc() {
        None => pid,
        Some(proc) => outside(proc, pid).unwrap_or(NOBODY),
    }
}

fn outside(proc: BorrowedFd<'_>, pid: u32) -> Option<u32> {
    use std::os::fd::AsRawFd;
    let _room = Room::make();
    let process = pidfd_open(Pid::from_raw(pid as i32)?, PidfdFlags::empty()).ok()?;
    behind(proc, process.as_raw_fd())
}

/// The process of a descriptor of pidfd_open(2).
#[must_use]
pub fn of_descriptor(fd: RawFd) -> Option<u32> {
    let _room = Room::make();
    match proc() {
        Some(proc) => behind(proc, fd),
        None => of_pidfd(fd),
    }
}

/// The same, as the calling process knows it.
#[must_use]
pub fn of_pidfd(fd: RawFd) -> Option<u32> {
    shown_in(&std::fs::read(format!("/proc/self/fdinfo/{fd}")).ok()?)
}

/// The process of a descriptor, by the numbers of the namespace of this folder.
fn behind(proc: BorrowedFd<'_>, fd: RawFd) -> Option<u32> {
    shown_in(&read(proc, &format!("self/fdinfo/{fd}")).ok()?)
}

/// The process that the description of a descriptor names (proc_pid_fdinfo(5)).
fn shown_in(text: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(text).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    line.trim().parse().ok()
}

fn read(proc: BorrowedFd<'_>, path: &str) -> std::io::Result<Vec<u8>> {
    use std::io::Read;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file: OwnedFd = openat(proc, path, flags, Mode::empty())?;
    let mut bytes = Vec::new();
    std::fs::File::from(file).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The content of `/proc/ID/stat`.
///
/// # Errors
/// The kernel's refusal: there is no such thread, as a rule.
pub fn stat(id: u32) -> std::io::Result<Vec<u8>> {
    match proc() {
        None => std::fs::read(format!("/proc/{id}/stat")),
        Some(proc) => read(proc, &format!("{id}/stat")),
    }
}

/// The content of `/proc/PID/task/TID/status` of each thread of a process that there is.
///
/// # Errors
/// The kernel's refusal: there is no such process, as a rule.
pub fn statuses(process: u32) -> std::io::Result<Vec<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let tasks = match proc() {
        None => open(format!("/proc/{process}/task"), flags, Mode::empty()),
        Some(proc) => openat(proc, format!("{process}/task"), flags, Mode::empty()),
    }?;
    let mut all = Vec::new();
    for entry in Dir::read_from(&tasks)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy();
        // `.` and `..` have none, nor has a thread that has ended meanwhile.
        all.extend(read(tasks.as_fd(), &format!("{name}/status")).ok());
    }
    Ok(all)
}

/// Whether there is a thread of this id, where ids may differ.
#[must_use]
pub fn exists(id: u32) -> Option<bool> {
    Some(rustix::fs::statat(proc()?, id.to_string(), rustix::fs::AtFlags::empty()).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_its_link_and_by_its_descriptor() {
        assert_eq!(parse(b"12/task/34"), Some((12, 34)));
        assert_eq!(parse(b"12"), None);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open("/proc", flags, Mode::empty()).expect("a /proc");
        let proc = folder.as_fd();
        let own = std::process::id();
        assert_eq!(outside(proc, own), Some(own));
        assert_eq!(outside(proc, NOBODY), None);
        assert!(read(proc, &format!("{own}/stat")).is_ok());
        let statuses = statuses(own).unwrap();
        assert!(!statuses.is_empty() && statuses.iter().all(|text| text.starts_with(b"Name:")));
    }
}
