//! The few files whose content would show the host instead of the guest: `/proc/self/…`.

use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use relive_host::{GuestAddr, copy};
use relive_kabi::{Arg, OpenFlags};
use rustix::fs::{self, MemfdFlags, Mode, OFlags};

use super::generic::generic;
use super::own;
use super::own_memory::whose;
use super::refuse::refuse;
use crate::call::Call;
use crate::descriptor::{self, is_generated};
use crate::failure::{CallError, Result};
use crate::memfd;
use crate::ptrace::requests::file;
use crate::ptrace::tracee_memory;
use crate::task::Task;

/// The file that a path names, if the engine must answer for it.
#[derive(Clone, Copy)]
enum Virtual {
    Maps,
    Exe,
    Environ,
    Auxv,
    /// Opened as it is; reads and writes are checked (`own_memory`).
    Memory,
    /// Another process's memory, opened for writing only by its tracer: else the bytes written would be on
    /// no tape.
    AnothersMemory(u32),
    /// Of a stopped process that the caller traces.
    Tracees(u32, u64),
    Refused,
}

/// Every call that opens a file by its path.
pub fn open(task: &mut Task, call: &Call) -> Result<i64> {
    let opening = call.opening().and_then(|o| Some((o, o.path?)));
    let Some((opening, path)) = opening else {
        return generic(task, call);
    };
    let flags = task.strings.open_flags(call, opening) as i32;
    let found = classify(task, call, usize::from(path));
    if matches!(
        found,
        Some(Virtual::Maps | Virtual::Environ | Virtual::Auxv | Virtual::Exe)
    ) {
        // The kernel says first whether the program may open it like this.
        match i32::try_from(generic(task, call)?) {
            // SAFETY: it was opened just now; the guest does not know it.
            Ok(fd @ 0..) => drop(unsafe { OwnedFd::from_raw_fd(fd) }),
            refused => {
                return Ok(refused.map_or(-i64::from(libc::EIO), i64::from));
            }
        }
    }
    Ok(match found {
        None => generic(task, call)?,
        Some(Virtual::Maps) => {
            let text = task.machine().memory().space.proc_maps();
            content(text.as_bytes(), flags)
        }
        Some(Virtual::Environ) => {
            let env = task.process.state().environ.clone();
            content(&env, flags)
        }
        Some(Virtual::Auxv) => {
            let auxv = task.process.state().auxv.clone();
            content(&auxv, flags)
        }
        Some(Virtual::Exe) => {
            let exe = task.process.state().exe.clone();
            let flags = OFlags::from_bits_retain((flags & !libc::O_NOFOLLOW) as u32);
            given(fs::open(&exe[..], flags, Mode::empty()).map_err(Into::into))
        }
        Some(Virtual::AnothersMemory(process))
            if flags & libc::O_ACCMODE != libc::O_RDONLY
                && !tracee_memory::has_stopped(task, process) =>
        {
            refuse(call, libc::EACCES)
        }
        Some(Virtual::Tracees(process, which)) => {
            match tracee_memory::file(task, process, which)? {
                Some(path) if which == file::EXE => {
                    let flags = OFlags::from_bits_retain((flags & !libc::O_NOFOLLOW) as u32);
                    given(fs::open(&path[..], flags, Mode::empty()).map_err(Into::into))
                }
                Some(bytes) => content(&bytes, flags),
                None => generic(task, call)?,
            }
        }
        Some(Virtual::Memory | Virtual::AnothersMemory(_)) => {
            task.machine().descriptor_kinds.memory_opened();
            generic(task, call)?
        }
        Some(Virtual::Refused) => -i64::from(libc::EACCES),
    })
}

/// readlink(2), readlinkat(2).
pub fn readlink(task: &mut Task, call: &Call) -> Result<i64> {
    let args = call.row.map_or(&[][..], |r| r.args);
    let path = args.iter().position(|arg| *arg == Arg::Str).unwrap_or(0);
    let exe = match classify(task, call, path) {
        Some(Virtual::Exe) => task.process.state().exe.clone(),
        Some(Virtual::Tracees(process, file::EXE)) => {
            match tracee_memory::file(task, process, file::EXE)? {
                Some(exe) => exe,
                None => return generic(task, call),
            }
        }
        _ => return generic(task, call),
    };
    let (buf, size) = (call.args[path + 1], call.int(path + 2));
    if size <= 0 {
        return Ok(-i64::from(libc::EINVAL));
    }
    // There may be no /proc, or another one.
    if let Some(errno) = no_link(task, call, path) {
        return Ok(-i64::from(errno));
    }
    let n = exe.len().min(size as usize);
    Ok(match task.write(buf, &exe[..n]) {
        Ok(()) => {
            task.log.wrote(buf, n as u64);
            n as i64
        }
        Err(e) => e.result()?,
    })
}

/// The kernel's refusal to read the link that the path in an argument names.
fn no_link(task: &Task, call: &Call, path: usize) -> Option<i32> {
    let folder = match path {
        0 => libc::AT_FDCWD,
        _ => call.int(0),
    };
    let mut text = Vec::new();
    task.strings.read(call, path, 4096, &mut text).ok()?;
    let text = CString::new(text).ok()?;
    let mut buffer = [0_u8; 1];
    // SAFETY: the text ends with a zero; the kernel writes one byte into the buffer at most.
    let read = unsafe { libc::readlinkat(folder, text.as_ptr(), buffer.as_mut_ptr().cast(), 1) };
    (read < 0).then(|| {
        std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO)
    })
}

/// getdents(2), getdents64(2): `/proc/self/fd` does not show the host's own descriptors.
pub fn entries(task: &mut Task, call: &Call) -> Result<i64> {
    // Bytes of the buffer that the kernel has written.
    let mut written = 0;
    loop {
        let result = generic(task, call)?;
        let hides = result > 0 && is_generated(call.int(0));
        let pid = hides.then(|| own::listing(call.int(0))).flatten();
        let Some(pid) = pid else {
            return match written > result && result >= 0 {
                // The end of the folder, behind entries that are hidden.
                true => shown(task, call, &[], written),
                false => Ok(result),
            };
        };
        written = written.max(result);
        let mut bytes = vec![0; result as usize];
        if copy::read(GuestAddr(call.args[1]), &mut bytes).is_err() {
            return Ok(result);
        }
        // `struct linux_dirent64` has the type before the name, `struct linux_dirent` behind it.
        let name = if i64::from(call.nr) == libc::SYS_getdents64 {
            19
        } else {
            18
        };
        let kept = without_entries(&bytes, name, |name| {
            let fd = std::str::from_utf8(name)
                .ok()
                .and_then(|name| name.parse().ok());
            fd.is_some_and(|fd| own::is_hidden(task, pid, fd))
        });
        // An empty result would mean the end of the folder: the next entries are the result then.
        if !kept.is_empty() {
            return shown(task, call, &kept, written);
        }
    }
}

/// Puts entries into the buffer of a call, and zeros behind them, as far as the kernel has written more.
fn shown(task: &mut Task, call: &Call, entries: &[u8], written: i64) -> Result<i64> {
    let mut bytes = entries.to_vec();
    bytes.resize(written as usize, 0);
    task.log.spans.clear();
    task.log.wrote(call.args[1], bytes.len() as u64);
    let put = task.write(call.args[1], &bytes);
    put.map_or_else(CallError::result, |()| Ok(entries.len() as i64))
}

/// A buffer of entries without those whose names, so far behind their beginnings, are hidden.
fn without_entries(mut bytes: &[u8], name: usize, hidden: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    while bytes.len() > name {
        let len =
            usize::from(u16::from_le_bytes([bytes[16], bytes[17]])).clamp(name + 1, bytes.len());
        let (entry, rest) = bytes.split_at(len);
        let text = entry[name..].split(|&b| b == 0).next().unwrap_or_default();
        if !hidden(text) {
            out.extend_from_slice(entry);
        }
        bytes = rest;
    }
    out
}

/// The last part of a path that may name such a file.
const NAMES: &[(&[u8], Virtual)] = &[
    (b"maps", Virtual::Maps),
    (b"smaps", Virtual::Maps),
    (b"numa_maps", Virtual::Maps),
    (b"exe", Virtual::Exe),
    (b"environ", Virtual::Environ),
    (b"auxv", Virtual::Auxv),
    (b"mem", Virtual::Memory),
    (b"pagemap", Virtual::Refused),
];

/// The file that the path in an argument of a call names, if the engine must answer for it. A call
/// whose path is its second argument has a folder before it.
fn classify(task: &Task, call: &Call, path: usize) -> Option<Virtual> {
    let folder = if path == 0 {
        libc::AT_FDCWD
    } else {
        call.int(0)
    };
    let mut text = Vec::new();
    task.strings.read(call, path, 4096, &mut text).ok()?;
    if in_root(task, call) {
        let beginning = text.iter().take_while(|&&b| b == b'/').count();
        text.drain(..beginning);
    }
    let name = text.rsplit(|&b| b == b'/').next()?;
    let found = NAMES.iter().find(|row| row.0 == name)?.1;
    let parent = &text[..text.len() - name.len()];
    if parent == b"/proc/self/" || parent == b"/proc/thread-self/" {
        return Some(found);
    }
    let process = process_of(folder, parent)?;
    match found {
        found if process == task.process.pid => Some(found),
        Virtual::Memory if whose::is_own(task, process) => Some(found),
        Virtual::Memory => Some(Virtual::AnothersMemory(process)),
        found if tracee_memory::has_stopped(task, process) => Some(Virtual::Tracees(
            process,
            match found {
                Virtual::Maps => file::MAPS,
                Virtual::Auxv => file::AUXV,
                Virtual::Environ => file::ENVIRON,
                Virtual::Exe => file::EXE,
                _ => return None,
            },
        )),
        _ => None,
    }
}

/// Whether the folder of a path is the root of it: openat2(2), `RESOLVE_IN_ROOT`.
fn in_root(task: &Task, call: &Call) -> bool {
    /// `struct open_how`: flags, mode, resolve.
    const RESOLVE: usize = 16;
    match call.opening().map(|o| o.flags) {
        Some(OpenFlags::Behind(how)) => {
            let resolve = task.strings.word(call, how, RESOLVE);
            resolve.is_some_and(|resolve| resolve & libc::RESOLVE_IN_ROOT != 0)
        }
        _ => false,
    }
}

/// The process whose folder in `/proc`, or a thread's of it, this is, however it is named.
fn process_of(folder: i32, path: &[u8]) -> Option<u32> {
    let path = if path.is_empty() { b"." } else { path };
    let path = CString::new(path).ok()?;
    let opened = descriptor::folder(folder, &path)?;
    let name = std::fs::read_link(format!("/proc/self/fd/{}", opened.as_raw_fd())).ok()?;
    let rest = name.strip_prefix("/proc").ok()?;
    let parts: Vec<_> = rest.iter().map(|part| part.as_bytes()).collect();
    let process = match parts[..] {
        [process] | [process, b"task", _] => process,
        _ => return None,
    };
    std::str::from_utf8(process).ok()?.parse().ok()
}

/// A descriptor from which `bytes` can be read.
fn content(bytes: &[u8], flags: i32) -> i64 {
    let memfd_flags = match flags & libc::O_CLOEXEC {
        0 => MemfdFlags::empty(),
        _ => MemfdFlags::CLOEXEC,
    };
    let written = memfd::new(c"proc", memfd_flags, bytes);
    given(written.map(OwnedFd::from))
}

/// The guest's new descriptor, or the errno of its call.
fn given(opened: std::io::Result<OwnedFd>) -> i64 {
    match opened {
        Ok(fd) => i64::from(fd.into_raw_fd()),
        Err(e) => -i64::from(e.raw_os_error().unwrap_or(libc::EIO)),
    }
}

#[cfg(test)]
mod tests;
