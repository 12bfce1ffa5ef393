//! Descriptors that lead to a standard stream without being copies of one: received from another
//! process, taken from it, or opened by the name of the terminal or file. They are known by the
//! identity of that terminal or file.

use std::sync::atomic::{AtomicU64, Ordering};

use relive_host::GuestAddr;
use relive_host::copy;
use relive_kabi::structs::{MMSGHDR, MSGHDR_CONTROL, MSGHDR_CONTROLLEN};
use relive_kabi::{Arg, Opening};

use crate::call::Call;
use crate::descriptor::{open_flags, status};
use crate::machine::Machine;
use crate::section::{Section, Shareable};
use crate::streams::{ERR, Identity, OUT};
use crate::task::Task;

/// The files behind the standard streams of a recording; in the shared memory.
#[repr(C)]
#[derive(Default)]
pub struct StreamAliases([AtomicU64; 4]);

/// The device of a terminal's [`Identity`], whose inode is the terminal's number: `/dev/tty` is
/// another file than the terminal that it opens.
const TERMINAL: u64 = u64::MAX;

/// ioctl_tty(2): the number of the terminal behind a descriptor.
const TIOCGDEV: libc::Ioctl = 0x8004_5432;

/// The files behind the standard streams of the recording.
pub static STREAM_ALIASES: Section<StreamAliases> = Section::new();

// SAFETY: all of it is atomic, and zeros are a value.
unsafe impl Shareable for StreamAliases {}

impl StreamAliases {
    /// Notes the files behind the calling process's streams: it is the first of a recording.
    pub fn note(&self) {
        for (stream, words) in [OUT, ERR].into_iter().zip(self.0.chunks(2)) {
            let (device, inode) = identity(i32::from(stream)).unwrap_or_default();
            words[0].store(device, Ordering::Relaxed);
            words[1].store(inode, Ordering::Relaxed);
        }
    }

    fn at(&self, stream: u8) -> Identity {
        let words = &self.0[2 * usize::from(stream - OUT)..];
        (
            words[0].load(Ordering::Relaxed),
            words[1].load(Ordering::Relaxed),
        )
    }

    fn find(&self, there: Identity) -> Option<u8> {
        [OUT, ERR]
            .into_iter()
            .find(|&stream| self.at(stream) == there)
    }
}

/// The identity of the file behind a descriptor; `None` for `/dev/null` and its like, which drop all
/// output.
fn identity(fd: i32) -> Option<Identity> {
    let st = status(fd)?;
    if st.st_mode & libc::S_IFMT != libc::S_IFCHR {
        return Some((st.st_dev, st.st_ino));
    }
    let mut number = 0u32;
    // SAFETY: fills the word, or fails on a file that is no terminal.
    let asked = unsafe { libc::ioctl(fd, TIOCGDEV, &raw mut number) };
    (asked == 0).then_some((TERMINAL, u64::from(number)))
}

/// Whether a stream leads to a file without an [`identity`].
pub(super) fn drops_output(machine: &Machine, stream: u8) -> bool {
    let aliases = machine.shm.as_ref().map(|shm| STREAM_ALIASES.of(shm));
    aliases.is_some_and(|aliases| aliases.at(stream) == Identity::default())
}

/// The stream that a descriptor leads to, however the descriptor came about. `None` for no stream, and
/// for a descriptor that only reads: both ends of a pipe are the same file, and the stream is one.
#[must_use]
pub fn stream(machine: &Machine, fd: i32) -> Option<u8> {
    let flags = open_flags(fd)?.bits() as i32;
    if flags & libc::O_ACCMODE == libc::O_RDONLY {
        return None;
    }
    let aliases = STREAM_ALIASES.of(machine.shm.as_ref()?);
    aliases.find(identity(fd)?)
}

/// The stream that the file leads to that a call has opened.
pub(super) fn opened(task: &Task, call: &Call, opening: Opening, fd: i32) -> Option<u8> {
    if task.strings.open_flags(call, opening) as i32 & libc::O_ACCMODE == libc::O_RDONLY {
        return None;
    }
    let named = || {
        let stream = task.process.state().streams.of(named(task, call)?);
        (stream != 0).then_some(stream)
    };
    stream(task.machine(), fd).or_else(named)
}

/// The descriptor of the caller that a path to be opened names: `/dev/stdout`, `/dev/fd/5`,
/// `/proc/self/fd/5`.
fn named(task: &Task, call: &Call) -> Option<i32> {
    let path = usize::from(call.opening()?.path?);
    let head: [u8; 5] = task.strings.head(call, path)?;
    if &head != b"/dev/" && &head != b"/proc" {
        return None;
    }
    let mut text = Vec::new();
    task.strings.read(call, path, 64, &mut text).ok()?;
    match &text[..] {
        b"/dev/stdout" => Some(1),
        b"/dev/stderr" => Some(2),
        path => {
            let of = |prefix: &[u8]| path.strip_prefix(prefix);
            let number = of(b"/dev/fd/").or_else(|| of(b"/proc/self/fd/"))?;
            std::str::from_utf8(number).ok()?.parse().ok()
        }
    }
}

/// The descriptors that the messages in an argument have brought.
pub(super) fn received(task: &Task, call: &Call, argument: u8, result: i64) -> Vec<i32> {
    let (at, size) = (call.arg(argument), u64::from(MMSGHDR));
    let messages = match call.row.map(|r| r.args[usize::from(argument)]) {
        Some(Arg::Mmsghdr { .. }) => result as u64,
        _ => 1,
    };
    let each = (0..messages).map(|i| passed(task, at.wrapping_add(size * i)));
    each.flatten().collect()
}

/// The descriptors in the control data of a message (unix(7), `SCM_RIGHTS` and `SCM_PIDFD`).
fn passed(task: &Task, message: u64) -> Vec<i32> {
    /// `struct cmsghdr`.
    const HEAD: usize = 16;
    const LARGEST: u64 = 1 << 16;
    /// `<linux/socket.h>`; libc does not have it.
    const SCM_PIDFD: i32 = 4;
    let word = |at: u32| task.read_u64(message + u64::from(at)).unwrap_or(0);
    let (control, len) = (word(MSGHDR_CONTROL), word(MSGHDR_CONTROLLEN).min(LARGEST));
    let mut bytes = vec![0; len as usize];
    if control == 0 || copy::read(GuestAddr(control), &mut bytes).is_err() {
        return Vec::new();
    }
    let int = |b: &[u8]| i32::from_le_bytes(b.try_into().unwrap_or_default());
    let mut found = Vec::new();
    let mut rest = &bytes[..];
    while rest.len() >= HEAD {
        let len = u64::from_le_bytes(rest[..8].try_into().unwrap_or_default()) as usize;
        let Some(data) = rest.get(HEAD..len) else {
            break;
        };
        let kind = (int(&rest[8..12]), int(&rest[12..16]));
        if kind.0 == libc::SOL_SOCKET && matches!(kind.1, libc::SCM_RIGHTS | SCM_PIDFD) {
            found.extend(data.chunks_exact(4).map(int));
        }
        rest = rest.get(len.next_multiple_of(8)..).unwrap_or_default();
    }
    found
}
