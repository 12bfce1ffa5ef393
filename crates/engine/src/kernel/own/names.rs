//! The host's own descriptors by their names in `/proc`: a path of the guest's must not lead through one.
//! Must never take a path for harmless because it cannot be read as a text.

use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;

use relive_host::addr::PAGE;
use relive_host::{GuestAddr, copy};
use rustix::fs::{Stat, stat};

use super::floor::{is_own, may_be};
use crate::call::Call;
use crate::descriptor;
use crate::descriptor_limit::Room;
use crate::kernel::fds;
use crate::task::Task;

/// Whether a path may lead through a descriptor of the host's: a part of it is such a number. Each call
/// with a path asks, so that paths without numbers are checked eight bytes at a time.
pub(in crate::kernel) fn may_name(task: &Task, path: u64) -> bool {
    let mut start = [0; 64];
    let there = (PAGE - path % PAGE).min(64) as usize;
    if copy::read(GuestAddr(path), &mut start[..there]).is_err() {
        return false;
    }
    !is_without_numbers(&start, there) && has_number(task, path)
}

/// Whether a path ends within its first bytes, the first `there` of `start`, and no part of it begins
/// with a digit (or one of the six characters behind the digits).
fn is_without_numbers(start: &[u8; 64], there: usize) -> bool {
    const LOW: u64 = u64::from_ne_bytes([0x7f; 8]);
    const HIGH: u64 = !LOW;
    const EACH: u64 = u64::from_ne_bytes([1; 8]);
    // The high bits of the bytes that are 0.
    let zeros = |x: u64| !(((x & LOW) + LOW) | x | LOW);
    // The first part begins where the path does.
    let mut behind = 0x80;
    for (k, word) in start.as_chunks().0.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let (ends, slashes) = (zeros(word), zeros(word ^ (EACH * u64::from(b'/'))));
        let digits = zeros((word & (EACH * 0xf0)) ^ (EACH * 0x30));
        // Bytes before the end, which is the lowest byte that is 0.
        let before = (ends & ends.wrapping_neg()).wrapping_sub(1) & HIGH;
        if digits & (slashes << 8 | behind) & before != 0 {
            return false;
        }
        if ends != 0 {
            return 8 * k + (ends.trailing_zeros() / 8) as usize <= there.saturating_sub(1);
        }
        behind = slashes >> 56;
    }
    false
}

fn has_number(task: &Task, path: u64) -> bool {
    let floor = task.machine().fd_floor as u64;
    let (mut at, mut number, mut digits) = (path, 0u64, true);
    let mut bytes = [0u8; 64];
    for _ in 0..libc::PATH_MAX as usize / bytes.len() + 2 {
        let chunk = &mut bytes[..(PAGE - at % PAGE).min(64) as usize];
        if copy::read(GuestAddr(at), chunk).is_err() {
            return false;
        }
        for &byte in chunk.iter() {
            match byte {
                b'0'..=b'9' => {
                    number = number
                        .saturating_mul(10)
                        .saturating_add((byte - b'0').into())
                }
                b'/' | 0 if digits && number >= floor => return true,
                0 => return false,
                b'/' => (number, digits) = (0, true),
                _ => digits = false,
            }
        }
        at += chunk.len() as u64;
    }
    false
}

/// Whether the path in an argument leads through a descriptor of the host's.
pub(super) fn names(task: &Task, folder: i32, call: &Call, path: usize) -> bool {
    let mut text = Vec::new();
    let read = (task.strings).read(call, path, libc::PATH_MAX as usize, &mut text);
    if read.is_err() {
        return false;
    }
    let mut start = 0;
    for part in text.split(|&byte| byte == b'/') {
        let number = std::str::from_utf8(part)
            .ok()
            .and_then(|part| part.parse().ok());
        if let Some(fd) = number.filter(|&fd: &i32| may_be(task, fd as u64))
            && let Some(pid) = lists_descriptors(task, folder, &text[..start])
            && is_hidden(task, pid, fd)
        {
            return true;
        }
        start += part.len() + 1;
    }
    false
}

/// The process whose descriptors a folder in `/proc` lists.
fn lists_descriptors(task: &Task, folder: i32, path: &[u8]) -> Option<u32> {
    let _room = Room::for_host(task.traits().keeps);
    let path = CString::new(if path.is_empty() { b"." } else { path }).ok()?;
    listing(descriptor::folder(folder, &path)?.as_raw_fd())
}

/// The same, for an open folder.
pub(in crate::kernel) fn listing(fd: i32) -> Option<u32> {
    let name = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    let parts: Vec<_> = name
        .strip_prefix("/proc")
        .ok()?
        .iter()
        .map(|part| part.as_bytes())
        .collect();
    let pid = match parts[..] {
        [pid, b"fd" | b"fdinfo"] | [pid, b"task", _, b"fd" | b"fdinfo"] => pid,
        _ => return None,
    };
    std::str::from_utf8(pid).ok()?.parse().ok()
}

/// Whether a descriptor of a process is its host's. For another process, only the file behind it can be
/// checked: whether it is a file that the hosts of a recording have open, at a number of theirs.
pub(in crate::kernel) fn is_hidden(task: &Task, pid: u32, fd: i32) -> bool {
    if !may_be(task, fd as u64) {
        return false;
    }
    if pid == task.process.pid {
        return is_own(task, fd);
    }
    let Ok(there) = stat(format!("/proc/{pid}/fd/{fd}")) else {
        return false;
    };
    let same = |st: Stat| (st.st_dev, st.st_ino) == (there.st_dev, there.st_ino);
    fds::own(task).filter_map(descriptor::status).any(same)
        || is_trace(task, &there)
        || is_memory(pid, fd)
}

/// Whether it is a process's memory: a host has its own open, or that of the process from which it was
/// forked.
fn is_memory(pid: u32, fd: i32) -> bool {
    let name = std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap_or_default();
    let name = name.as_os_str().as_bytes();
    // Where its file system is not mounted for the caller, the name begins within that.
    let folder = name.strip_suffix(b"/mem");
    let number = folder.and_then(|n| n.strip_prefix(b"/proc/").or(n.strip_prefix(b"/")));
    number.is_some_and(|n| !n.is_empty() && n.iter().all(u8::is_ascii_digit))
}

/// Whether it is the store of input, which only hosts that have appended to it have open.
fn is_trace(task: &Task, there: &Stat) -> bool {
    use std::os::unix::fs::MetadataExt;
    let store = std::fs::metadata(relive_trace::input_path(&task.machine().trace));
    store.is_ok_and(|store| (store.dev(), store.ino()) == (there.st_dev, there.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn without(path: &[u8]) -> bool {
        let mut start = [0xff; 64];
        let there = path.len().min(64);
        start[..there].copy_from_slice(&path[..there]);
        is_without_numbers(&start, there)
    }

    #[test]
    fn a_part_that_begins_with_a_digit_is_seen_wherever_it_is() {
        for before in 0..40 {
            let path = |text: &str| [vec![b'a'; before], text.into()].concat();
            assert!(without(&path("/proc/self/x9\0/1")), "{before}");
            assert!(without(&path("\0")), "{before}");
            assert!(!without(&path("/proc/self/fd/9\0")), "{before}");
            assert!(!without(&path("/9/\0")), "{before}");
            assert!(!without(&path("/proc/self/fd")), "no end, {before}");
        }
        assert!(!without(b"1020\0") && !without(b"") && without(b"\0"));
        assert!(!without(&[b'a'; 64]) && !without(b"\xff/\xb0/0\0"));
        assert!(without(b"/\xb0/\xb9\0"), "no digits");
    }
}
