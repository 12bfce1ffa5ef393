//! What threads share by system calls and not by memory, as numbers of words that no memory has: the
//! descriptors and the paths that a call uses or changes, that it forks, that it sends a signal. Of two calls, or of a call and
//! accesses to memory, whose order may matter. A guess for those who vary orders; it must decide nothing else.

use std::hash::{DefaultHasher, Hash, Hasher};

use relive_host::{GuestAddr, copy};
use relive_kabi::Arg;
use relive_sched::SharedAccess;
use smallvec::SmallVec;

use super::{clone_args, strings};

/// The word of all forks: a child has the locks of other threads as they are then.
pub const FORKS: u64 = SharedAccess::ANY_MEMORY;
/// The word of all signals that are sent to the process.
pub const SIGNALS: u64 = SharedAccess::ANY_MEMORY + 1;

const DESCRIPTORS: u64 = SharedAccess::BESIDE_MEMORY;
const PATHS: u64 = DESCRIPTORS + (1 << 32);

/// Such a word, and whether the call changes what it stands for.
pub type CallWord = (u64, bool);

/// Calls that change what arguments stand for, as a bit for each.
const CHANGES: &[(i64, u8)] = &[
    (libc::SYS_close, 1),
    (libc::SYS_dup2, 1 << 1),
    (libc::SYS_dup3, 1 << 1),
    (libc::SYS_creat, 1),
    (libc::SYS_truncate, 1),
    (libc::SYS_unlink, 1),
    (libc::SYS_unlinkat, 1 << 1),
    (libc::SYS_rmdir, 1),
    (libc::SYS_mkdir, 1),
    (libc::SYS_mkdirat, 1 << 1),
    (libc::SYS_mknod, 1),
    (libc::SYS_mknodat, 1 << 1),
    (libc::SYS_rename, 1 | 1 << 1),
    (libc::SYS_renameat, 1 << 1 | 1 << 3),
    (libc::SYS_renameat2, 1 << 1 | 1 << 3),
    (libc::SYS_link, 1 << 1),
    (libc::SYS_linkat, 1 << 3),
    (libc::SYS_symlink, 1 << 1),
    (libc::SYS_symlinkat, 1 << 2),
];

/// Calls that may change a file by its path: the arguments with the path and with the flags that say so.
const OPENS: [(i64, usize, usize); 2] = [(libc::SYS_open, 0, 1), (libc::SYS_openat, 1, 2)];

/// Calls that send signals.
const SENDS: [i64; 6] = [
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_send_signal,
];

/// The words of a call that a thread is about to make, changed ones first.
pub fn words(nr: u32, args: &[u64; 6]) -> SmallVec<[CallWord; 2]> {
    let mut words: SmallVec<[CallWord; 2]> = SmallVec::new();
    if forks(nr, args) {
        words.push((FORKS, true));
    }
    if SENDS.contains(&nr.into()) {
        words.push((SIGNALS, true));
    }
    let changed = CHANGES.iter().find(|row| row.0 == i64::from(nr));
    let changed = changed.map_or(0, |row| row.1);
    let opens = OPENS.iter().find(|row| row.0 == i64::from(nr));
    let made = opens.and_then(|&(_, path, flags)| is_to_write(args[flags]).then_some(path));
    let row = relive_kabi::row(u64::from(nr));
    for (i, arg) in row.iter().flat_map(|row| row.args.iter().enumerate()) {
        let changes = changed & 1 << i != 0 || made == Some(i);
        match arg {
            // The first three are always there.
            Arg::Fd if args[i] as u32 > 2 => {
                words.push((DESCRIPTORS + u64::from(args[i] as u32), changes));
            }
            Arg::Str => words.extend(path(args[i]).map(|word| (word, changes))),
            _ => {}
        }
    }
    words.sort_by_key(|word| !word.1);
    words
}

fn is_to_write(flags: u64) -> bool {
    flags as i32 & (libc::O_CREAT | libc::O_TRUNC) != 0
}

/// Whether a call makes a process with memory of its own.
fn forks(nr: u32, args: &[u64; 6]) -> bool {
    let flags = match i64::from(nr) {
        libc::SYS_fork => 0,
        libc::SYS_clone => args[0],
        libc::SYS_clone3 => {
            let mut flags = [0; 8];
            match copy::read(GuestAddr(args[0]), &mut flags) {
                Ok(()) => u64::from_le_bytes(flags),
                Err(_) => return false,
            }
        }
        _ => return false,
    };
    flags & clone_args::VM == 0
}

/// The word of a path.
fn path(at: u64) -> Option<u64> {
    let mut bytes = Vec::new();
    copy::read_cstr(GuestAddr(at), strings::MAX, &mut bytes).ok()?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    Some(PATHS + (hasher.finish() >> 16))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Guest;

    const AREA: u64 = 0x1000_a000_0000;

    fn of(nr: i64, args: [u64; 6]) -> Vec<CallWord> {
        words(nr as u32, &args).to_vec()
    }

    #[test]
    fn a_descriptor_is_used_or_changed() {
        let word = DESCRIPTORS + 7;
        assert_eq!(of(libc::SYS_write, [7, 0, 5, 0, 0, 0]), [(word, false)]);
        assert_eq!(of(libc::SYS_close, [7, 0, 0, 0, 0, 0]), [(word, true)]);
        let both = [(word, true), (word + 1, false)];
        assert_eq!(of(libc::SYS_dup2, [8, 7, 0, 0, 0, 0]), both);
        assert_eq!(of(libc::SYS_write, [1, 0, 5, 0, 0, 0]), []);
    }

    /// An address in guest memory with these bytes.
    fn put(guest: &mut Guest, at: u64, bytes: &[u8]) -> u64 {
        let at = AREA + at;
        guest.map(AREA, 4096);
        copy::write(GuestAddr(at), bytes).expect("mapped");
        at
    }

    #[test]
    fn a_path_is_its_bytes() {
        let mut guest = Guest::new();
        let one = put(&mut guest, 0, b"/a/b\0/a/b\0/a/c\0");
        let [same, other] = [one + 5, one + 10];
        let opened = |path, flags: i32| of(libc::SYS_open, [path, flags as u64, 0, 0, 0, 0]);
        let read = opened(one, libc::O_RDONLY);
        assert_eq!(read, opened(same, libc::O_RDONLY));
        assert_ne!(read, opened(other, libc::O_RDONLY));
        assert_eq!(opened(one, libc::O_CREAT), [(read[0].0, true)]);
        assert_eq!(
            of(libc::SYS_unlink, [one, 0, 0, 0, 0, 0]),
            [(read[0].0, true)]
        );
        let at = [libc::AT_FDCWD as u64, one, libc::O_TRUNC as u64, 0, 0, 0];
        assert_eq!(of(libc::SYS_openat, at), [(read[0].0, true)]);
        assert!((PATHS..SharedAccess::ANY_MEMORY).contains(&read[0].0));
        assert_eq!(of(libc::SYS_unlink, [8, 0, 0, 0, 0, 0]), []);
    }

    #[test]
    fn forks_are_those_with_memory_of_their_own() {
        let vm = libc::CLONE_VM as u64;
        assert_eq!(of(libc::SYS_fork, [0; 6]), [(FORKS, true)]);
        assert_eq!(of(libc::SYS_clone, [17, 0, 0, 0, 0, 0]), [(FORKS, true)]);
        assert_eq!(of(libc::SYS_clone, [17 | vm, 0, 0, 0, 0, 0]), []);
        let mut guest = Guest::new();
        let at = put(&mut guest, 64, &[vm.to_le_bytes(), [0; 8]].concat());
        assert_eq!(of(libc::SYS_clone3, [at, 88, 0, 0, 0, 0]), []);
        assert_eq!(
            of(libc::SYS_clone3, [at + 8, 88, 0, 0, 0, 0]),
            [(FORKS, true)]
        );
        assert_eq!(of(libc::SYS_tgkill, [1, 2, 10, 0, 0, 0]), [(SIGNALS, true)]);
    }
}
