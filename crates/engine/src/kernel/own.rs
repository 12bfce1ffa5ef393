//! The host's own descriptors among the guest's: to a call of the guest they must never be open, however
//! it names them. Checked in one place for all calls, before a call is made, by the table's description of
//! its arguments; hooks need not check. Live only: in replay the answer is on the tape.

mod floor;
mod names;

use relive_host::{GuestAddr, copy};
use relive_kabi::structs::MMSGHDR;
use relive_kabi::{Arg, Dir, Holds, Len, Row, Special, SubTable};

use self::floor::is_own;
pub(super) use self::floor::may_be;
use self::names::names;
pub(super) use self::names::{is_hidden, listing, may_name};
use super::fds;
use crate::call::Call;
use crate::descriptor_limit::limit;
use crate::ids::of_pidfd;
use crate::task::Task;

/// A number that is never open.
const CLOSED: i32 = i32::MAX;
/// Limits of the kernel's: descriptors in a call of poll(2), bytes of control data in a message.
const MOST_POLLED: u64 = 1 << 20;
const MOST_CONTROL: u64 = 20480;
const CMSG_HEADER: usize = 16;

/// The arguments in a set of bits.
#[inline]
pub(super) fn arguments(mut bits: u8) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let i = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (i < 8).then_some(i)
    })
}

/// The arguments of a call that have descriptors, as bits.
#[derive(Clone, Copy)]
struct DescriptorArguments {
    numbers: u8,
    /// Descriptors before a path: without meaning if the path begins at the root.
    folders: u8,
    paths: u8,
    polled: u8,
    sets: u8,
    messages: u8,
    /// Arguments whose type depends on the request.
    selected: u8,
    /// None but `numbers`, and none outside of the arguments.
    plain: bool,
}

impl DescriptorArguments {
    const NONE: Self = Self {
        numbers: 0,
        folders: 0,
        paths: 0,
        polled: 0,
        sets: 0,
        messages: 0,
        selected: 0,
        plain: false,
    };

    const fn of(args: &[Arg]) -> Self {
        let mut places = Self::NONE;
        let mut i = 0;
        while i < args.len() {
            let bit = 1 << i;
            let before_path = i + 1 < args.len() && matches!(args[i + 1], Arg::Str);
            match args[i] {
                Arg::DirFd if before_path => places.folders |= bit,
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
            i += 1;
        }
        places
    }

    const fn of_row(row: &Row) -> Self {
        let all = Self::of(row.args);
        let Self {
            numbers: _,
            folders,
            paths,
            polled,
            sets,
            messages,
            selected,
            plain: _,
        } = all;
        let elsewhere = folders | paths | polled | sets | messages | selected;
        Self {
            plain: elsewhere == 0
                && matches!(row.holds, Holds::Nothing)
                && matches!(row.sub, SubTable::None),
            ..all
        }
    }
}

/// The places of descriptors by the calls' numbers. Process-wide: a table that is computed when Relive is built, as
/// each process would pay for it at its start.
static PLACES: [DescriptorArguments; 512] = {
    let mut all = [DescriptorArguments::NONE; 512];
    let mut i = 0;
    while i < relive_kabi::TABLE.len() {
        let row = &relive_kabi::TABLE[i];
        if (row.nr as usize) < all.len() {
            all[row.nr as usize] = DescriptorArguments::of_row(row);
        }
        i += 1;
    }
    all
};

/// The errno of a call that names a descriptor of the host's, as if that were closed.
#[inline]
pub(super) fn refuses(task: &Task, call: &Call) -> Option<i32> {
    let places = PLACES.get(call.nr as usize)?;
    if names_own(task, call, places.numbers) && !maps_no_file(call) {
        return Some(libc::EBADF);
    }
    match places.plain {
        true => None,
        false => refuses_elsewhere(task, call, places),
    }
}

/// Whether one of these arguments is a descriptor of the host's.
fn names_own(task: &Task, call: &Call, bits: u8) -> bool {
    arguments(bits).any(|i| is_own(task, call.int(i)))
}

/// As [`refuses`], for all but plain numbers.
fn refuses_elsewhere(task: &Task, call: &Call, places: &DescriptorArguments) -> Option<i32> {
    let selected = || {
        let number = call.sub.is_some_and(|sub| sub.arg == Arg::Fd);
        number && names_own(task, call, places.selected)
    };
    let from_root = |i: usize| task.strings.head(call, i + 1) == Some(*b"/");
    let folder = |i: usize| is_own(task, call.int(i)) && !from_root(i);
    if selected() || arguments(places.folders).any(folder) {
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
        (task.strings.has(i) || may_name(task, call.args[i])) && names(task, folder, call, i)
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
        && call.args[0] as i32 > task.machine().fd_floor
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
            may_be(task, fd)
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

/// Whether poll(2) gets more entries than descriptors may be open: the kernel refuses that before it looks at any.
pub(super) fn polls_too_many(call: &Call) -> bool {
    /// With so many it is left to the kernel.
    const FEW: u64 = 1024;
    let count = u64::from(call.args[1] as u32);
    let polls = |places: &DescriptorArguments| places.polled != 0;
    count > FEW
        && PLACES.get(call.nr as usize).is_some_and(polls)
        && limit().is_some_and(|(soft, _)| count > soft)
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
