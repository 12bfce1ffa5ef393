//! The host's own descriptors among the guest's: to a call of the guest they must never be open, however
//! it names them. Checked in one place for all calls, before a call is made, by the table's description of
//! its arguments; hooks need not check. Live only: in replay the answer is on the tape.

use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicI32, Ordering};

use relive_host::addr::PAGE;
use relive_host::{GuestAddr, copy};
use relive_kabi::structs::MMSGHDR;
use relive_kabi::{Arg, Dir, Holds, Len, Special};

use super::fds;
use crate::call::Call;
use crate::descriptor::status;
use crate::descriptor_limit::Room;
use crate::task::Task;

/// No descriptor of the host's has a lower number. Numbers from here on are checked more closely.
static FLOOR: AtomicI32 = AtomicI32::new(i32::MAX);

/// A number that is never open.
const CLOSED: i32 = i32::MAX;
/// Limits of the kernel's: descriptors in a call of poll(2), bytes of control data in a message.
const MOST_POLLED: u64 = 1 << 20;
const MOST_CONTROL: u64 = 20480;
const CMSG_HEADER: usize = 16;

/// Notes that the host's descriptors are at this number or above.
pub fn begin_at(floor: i32) {
    FLOOR.store(floor, Ordering::Relaxed);
}

/// The arguments in a set of bits.
#[inline]
pub(super) fn arguments(mut bits: u8) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let i = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (i < 8).then_some(i)
    })
}

/// Whether a descriptor may be one of the host's, which is seldom; [`fds::own`] decides.
#[inline]
pub(super) fn may_be(fd: u64) -> bool {
    fd as i32 >= FLOOR.load(Ordering::Relaxed)
}

fn is_own(task: &Task, fd: i32) -> bool {
    may_be(fd as u64) && fds::own(task).any(|own| own == fd)
}

/// The arguments of a call that have descriptors, as bits.
#[derive(Clone, Copy, Default)]
struct Places {
    numbers: u8,
    /// Descriptors before a path: without meaning if the path begins at the root.
    folders: u8,
    paths: u8,
    polled: u8,
    sets: u8,
    messages: u8,
    /// Arguments whose type depends on the request.
    selected: u8,
}

impl Places {
    fn of(args: &[Arg]) -> Self {
        let mut places = Self::default();
        for (i, arg) in args.iter().enumerate() {
            let bit = 1 << i;
            match arg {
                Arg::DirFd if args.get(i + 1) == Some(&Arg::Str) => places.folders |= bit,
                Arg::Fd | Arg::DirFd => places.numbers |= bit,
                Arg::Str => places.paths |= bit,
                Arg::Buf {
                    cap: Len::Special(Special::PollFds(_)),
                    ..
                } => places.polled |= bit,
                Arg::Buf {
                    cap: Len::Special(Special::FdSet(_)),
                    ..
                } => places.sets |= bit,
                Arg::Msghdr { dir: Dir::In } | Arg::Mmsghdr { dir: Dir::In, .. } => {
                    places.messages |= bit;
                }
                Arg::Select => places.selected |= bit,
                _ => {}
            }
        }
        places
    }
}

static PLACES: LazyLock<[Places; 512]> = LazyLock::new(|| {
    let mut all = [Places::default(); 512];
    for row in relive_kabi::TABLE {
        if let Some(places) = all.get_mut(usize::from(row.nr)) {
            *places = Places::of(row.args);
        }
    }
    all
});

/// The errno of a call that names a descriptor of the host's, as if that were closed.
pub(super) fn refuses(task: &Task, call: &Call) -> Option<i32> {
    let places = PLACES.get(call.nr as usize)?;
    let named = |bits: u8| arguments(bits).any(|i| is_own(task, call.int(i)));
    let selected = || {
        let number = call.sub.is_some_and(|sub| sub.arg == Arg::Fd);
        number && named(places.selected)
    };
    let from_root = |i: usize| task.strings.head(call, i + 1) == Some(*b"/");
    let folder = |i: usize| is_own(task, call.int(i)) && !from_root(i);
    let looked_at = !maps_no_file(call);
    if looked_at && named(places.numbers) || selected() || arguments(places.folders).any(folder) {
        return Some(libc::EBADF);
    }
    if arguments(places.sets).any(|i| in_set(task, call, call.args[i]))
        || arguments(places.messages).any(|i| in_message(task, call.args[i]))
        || holds(task, call)
    {
        return Some(libc::EBADF);
    }
    let path = |i: usize| {
        let folder = i.checked_sub(1).filter(|i| places.folders >> i & 1 == 1);
        let folder = folder.map_or(libc::AT_FDCWD, |i| call.int(i));
        (task.strings.has(i) || may_name(call.args[i])) && names(task, folder, call, i)
    };
    arguments(places.paths).any(path).then_some(libc::ENOENT)
}

/// Whether a call maps anonymous memory: mmap(2) ignores the descriptor then.
fn maps_no_file(call: &Call) -> bool {
    i64::from(call.nr) == libc::SYS_mmap && call.int(3) & libc::MAP_ANONYMOUS != 0
}

/// Whether a set of select(2) has a descriptor of the host's.
fn in_set(task: &Task, call: &Call, set: u64) -> bool {
    set != 0
        && call.args[0] as i32 > FLOOR.load(Ordering::Relaxed)
        && fds::own(task).any(|own| {
            let byte = copy::read_array::<1>(GuestAddr(set.wrapping_add(own as u64 / 8)));
            own < call.int(0) && byte.is_ok_and(|[byte]| byte >> (own % 8) & 1 == 1)
        })
}

/// Whether a message passes a descriptor of the host's on (unix(7), `SCM_RIGHTS`).
fn in_message(task: &Task, header: u64) -> bool {
    let word = |offset: u64| task.read_u64(header.wrapping_add(offset)).unwrap_or(0);
    let (control, length) = (word(32), word(40).min(MOST_CONTROL));
    if control == 0 || length < CMSG_HEADER as u64 {
        return false;
    }
    let mut bytes = vec![0; length as usize];
    if copy::read(GuestAddr(control), &mut bytes).is_err() {
        return false;
    }
    let mut rest = &bytes[..];
    while rest.len() >= CMSG_HEADER {
        let word =
            |at: usize| i32::from_le_bytes([rest[at], rest[at + 1], rest[at + 2], rest[at + 3]]);
        let length = (word(0) as u32 as usize).clamp(CMSG_HEADER, rest.len());
        if (word(8), word(12)) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            let (words, _) = rest[CMSG_HEADER..length].as_chunks::<4>();
            if words
                .iter()
                .any(|word| is_own(task, i32::from_le_bytes(*word)))
            {
                return true;
            }
        }
        rest = rest.get(length.next_multiple_of(8)..).unwrap_or_default();
    }
    false
}

/// Whether a call has a descriptor of the host's in a structure, or in an argument that is otherwise a
/// number.
fn holds(task: &Task, call: &Call) -> bool {
    const KCMP_FILE: i32 = 0;
    let long_at = |at: u64| task.read_u64(at).is_ok_and(|fd| is_own(task, fd as i32));
    match call.holds() {
        Holds::Nothing => false,
        Holds::Word(argument, offset) => long_at(call.arg(argument).wrapping_add(offset.into())),
        Holds::Targets(argument) => {
            let range = call.arg(argument);
            let count = task.read::<2>(range.wrapping_add(16));
            let count = u64::from(count.map_or(0, u16::from_le_bytes));
            (0..count).any(|k| long_at(range.wrapping_add(24 + 32 * k)))
        }
        Holds::Compared if call.int(2) == KCMP_FILE => [(0, 3), (1, 4)]
            .iter()
            .any(|&(of, fd)| call.int(of) as u32 == task.process.pid && is_own(task, call.int(fd))),
        Holds::Compared => false,
        Holds::OfPidfd(pidfd) => {
            let fd = call.arg(pidfd + 1);
            may_be(fd)
                && of_pidfd(call.arg(pidfd) as i32)
                    .is_some_and(|pid| is_hidden(task, pid, fd as i32))
        }
    }
}

/// Of several messages (sendmmsg(2)), those before the first that passes a descriptor of the host's on
/// are sent. Returns the argument of their number, and the number.
pub(super) fn messages(task: &Task, call: &Call) -> Option<(usize, u64)> {
    const MOST: u64 = 1024;
    arguments(PLACES.get(call.nr as usize)?.messages).find_map(|i| {
        let Arg::Mmsghdr { count, .. } = call.row?.args[i] else {
            return None;
        };
        let header = |k: u64| call.args[i].wrapping_add(u64::from(MMSGHDR) * k);
        let number = u64::from(call.arg(count) as u32).min(MOST);
        let sent = (1..number).find(|&k| in_message(task, header(k)))?;
        Some((usize::from(count), sent))
    })
}

/// Whether poll(2) is asked about a descriptor of the host's.
pub(super) fn polled(task: &Task, call: &Call) -> bool {
    let Some(places) = PLACES.get(call.nr as usize) else {
        return false;
    };
    arguments(places.polled).any(|i| {
        let count = u64::from(call.args[1] as u32).min(MOST_POLLED) as usize;
        let mut entries = [[0u8; 8]; 32];
        (0..count).step_by(entries.len()).any(|from| {
            let part = &mut entries[..(count - from).min(32)];
            let at = GuestAddr(call.args[i].wrapping_add(8 * from as u64));
            copy::read(at, part.as_flattened_mut()).is_ok()
                && part
                    .iter()
                    .any(|&[a, b, c, d, ..]| is_own(task, i32::from_le_bytes([a, b, c, d])))
        })
    })
}

/// Replaces the host's descriptors in a copy of poll(2)'s entries. Returns the replaced bytes with their
/// offsets, to be put back after the call.
pub(super) fn hide_polled(task: &Task, polled: &mut [u8]) -> Vec<(usize, [u8; 4])> {
    let mut hidden = Vec::new();
    for (k, entry) in polled.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        let [a, b, c, d, ..] = *entry;
        if is_own(task, i32::from_le_bytes([a, b, c, d])) {
            hidden.push((8 * k, [a, b, c, d]));
            entry[..4].copy_from_slice(&CLOSED.to_le_bytes());
        }
    }
    hidden
}

/// Whether a path may lead through a descriptor of the host's: a part of it is such a number. Each call
/// with a path asks, so that paths without numbers are checked eight bytes at a time.
pub(super) fn may_name(path: u64) -> bool {
    let mut start = [0; 64];
    let there = (PAGE - path % PAGE).min(64) as usize;
    if copy::read(GuestAddr(path), &mut start[..there]).is_err() {
        return false;
    }
    !is_without_numbers(&start, there) && has_number(path)
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

fn has_number(path: u64) -> bool {
    let floor = FLOOR.load(Ordering::Relaxed) as u64;
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
fn names(task: &Task, folder: i32, call: &Call, path: usize) -> bool {
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
        if let Some(fd) = number.filter(|&fd: &i32| may_be(fd as u64))
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
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    // SAFETY: the path outlives the call; the descriptor is new.
    let opened = unsafe { libc::openat(folder, path.as_ptr(), flags) };
    if opened < 0 {
        return None;
    }
    // SAFETY: the descriptor is new, and has no other owner.
    let opened = unsafe { OwnedFd::from_raw_fd(opened) };
    listing(opened.as_raw_fd())
}

/// The same, for an open folder.
pub(super) fn listing(fd: i32) -> Option<u32> {
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
pub(super) fn is_hidden(task: &Task, pid: u32, fd: i32) -> bool {
    if !may_be(fd as u64) {
        return false;
    }
    if pid == task.process.pid {
        return is_own(task, fd);
    }
    let Ok(path) = CString::new(format!("/proc/{pid}/fd/{fd}")) else {
        return false;
    };
    // SAFETY: for plain integers all-zero bytes are a value.
    let mut there: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the path outlives the call, which fills the structure.
    if unsafe { libc::stat(path.as_ptr(), &raw mut there) } != 0 {
        return false;
    }
    let same = |st: libc::stat| (st.st_dev, st.st_ino) == (there.st_dev, there.st_ino);
    fds::own(task).filter_map(status).any(same) || is_trace(task, &there) || is_memory(pid, fd)
}

/// Whether it is a process's memory: a host has its own open, or that of the process from which it was
/// forked.
fn is_memory(pid: u32, fd: i32) -> bool {
    let name = std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap_or_default();
    let name = name.as_os_str().as_bytes();
    let middle = name
        .strip_prefix(b"/proc/")
        .and_then(|n| n.strip_suffix(b"/mem"));
    middle.is_some_and(|m| !m.is_empty() && m.iter().all(u8::is_ascii_digit))
}

/// Whether it is the store of input, which only hosts that have appended to it have open.
fn is_trace(task: &Task, there: &libc::stat) -> bool {
    use std::os::unix::fs::MetadataExt;
    let store = std::fs::metadata(relive_trace::input_path(&task.machine().trace));
    store.is_ok_and(|store| (store.dev(), store.ino()) == (there.st_dev, there.st_ino))
}

/// The process of a descriptor of pidfd_open(2).
fn of_pidfd(fd: i32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pid:"))?;
    line.trim().parse().ok()
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
