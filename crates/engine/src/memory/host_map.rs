//! The host's map of guest memory, as the kernel keeps it: the system calls by which it follows the
//! guest's. It must never change the guest's own map ([`crate::space`]), nor make a page executable.

use std::os::fd::RawFd;

use relive_host::{sys, window};

use crate::failure::{CallResult, Failure, Result};
use crate::space::{EXEC, READ, Region, WRITE};

/// The source of a map's content.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// Zeros.
    Anon,
    /// A file, through this (host) descriptor, at this offset.
    File(RawFd, u64),
    /// A System V segment, by its id.
    Segment(i32),
}

/// Maps memory in place of the reserve, or of maps of the guest's.
///
/// # Errors
/// The errno of mmap(2) or shmat(2).
pub(super) fn map_host(region: &Region, source: Source) -> CallResult<()> {
    let (fd, offset) = match source {
        Source::Anon => (u64::MAX, 0),
        Source::File(fd, offset) => (fd as u64, offset),
        Source::Segment(id) => return attach(region, id),
    };
    let mut flags = libc::MAP_FIXED | libc::MAP_NORESERVE;
    flags |= match region.shared {
        true => libc::MAP_SHARED,
        false => libc::MAP_PRIVATE,
    };
    if matches!(source, Source::Anon) {
        flags |= libc::MAP_ANONYMOUS;
    }
    let (start, len) = (region.start, region.end - region.start);
    let prot = u64::from(host_prot(region.prot));
    let args = [start, len, prot, flags as u64, fd, offset];
    // SAFETY: the caller names a range of the guest window, which belongs to the guest.
    match unsafe { sys::syscall(libc::SYS_mmap as u64, args) } {
        0.. => Ok(()),
        e => Err((e as i64).into()),
    }
}

/// Attaches a segment.
fn attach(region: &Region, id: i32) -> CallResult<()> {
    let mut flags = libc::SHM_REMAP;
    if region.prot & WRITE == 0 {
        flags |= libc::SHM_RDONLY;
    }
    let args = [id as u64, region.start, flags as u64, 0, 0, 0];
    // SAFETY: as in `map_host`; the range has the size of the segment.
    match unsafe { sys::syscall(libc::SYS_shmat as u64, args) } {
        0.. => Ok(()),
        e => Err((e as i64).into()),
    }
}

/// The host's protection for guest memory: never executable, readable where executable.
pub(super) fn host_prot(prot: u32) -> u32 {
    let mut host = prot & (READ | WRITE);
    if prot & (EXEC | WRITE) != 0 {
        host |= READ;
    }
    host
}

/// Changes the host's protection of mapped guest memory.
pub(super) fn protect_host(start: u64, end: u64, prot: u32) -> std::result::Result<(), i32> {
    let args = [start, end - start, u64::from(prot), 0, 0, 0];
    // SAFETY: the callers name mapped guest memory, to which the host holds no reference; its content
    // stays.
    let got = unsafe { sys::syscall(libc::SYS_mprotect as u64, args) };
    if got < 0 { Err(-got as i32) } else { Ok(()) }
}

/// The same for the host's own purposes: memory that is guarded by half is wrong already.
pub(super) fn guard_host(start: u64, end: u64, prot: u32) -> Result<()> {
    protect_host(start, end, prot).map_err(|e| too_many_maps("change the protection of", start, e))
}

/// Gives a range back to the reserve that the kernel has unmapped, or that is to be unmapped.
pub(super) fn put_back(start: u64, len: u64) -> Result<()> {
    // SAFETY: the callers name parts of the window that are the guest's to lose.
    let got = unsafe { window::release(start, len) };
    match got {
        0.. => Ok(()),
        e => Err(too_many_maps("release", start, -e as i32)),
    }
}

/// The kernel refuses a change of the host's map of guest memory, for want of maps (proc(5)).
pub(super) fn too_many_maps(change: &str, start: u64, errno: i32) -> Failure {
    Failure::setup(format!(
        "cannot {change} memory at {start:#x} (errno {errno}): raise vm.max_map_count"
    ))
}

/// madvise(2) of guest memory.
pub(super) fn advise(start: u64, end: u64, advice: i32) -> CallResult<()> {
    let args = [start, end - start, advice as u64, 0, 0, 0];
    // SAFETY: the callers name guest memory, to which the host holds no reference.
    match unsafe { sys::syscall(libc::SYS_madvise as u64, args) } {
        0.. => Ok(()),
        e => Err((e as i64).into()),
    }
}
