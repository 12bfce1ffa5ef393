//! The thread that holds a lock, by the words of the C libraries: the GNU library's mutexes and read-write
//! locks, musl's mutexes, and the kernel's own format (futex(2), priority inheritance and robust lists).
//! A word of another meaning must hardly ever look like one of these.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// The bit of a lock's word that says that others wait (`FUTEX_WAITERS`).
const WAITERS: u32 = 0x8000_0000;
/// The bits of the holder's number (`FUTEX_TID_MASK`).
const HOLDER: u32 = 0x3fff_ffff;
/// The value of a GNU mutex for which others wait, and the distance of its holder's number.
const CONTENDED: u32 = 2;
const OWNER: u64 = 8;
/// The distances of a GNU read-write lock's writer from the two words on which threads wait for it.
const WRITER: [u64; 2] = [16, 12];

/// The thread that holds the lock at `addr`, for whose word to change from `value` a thread waits.
pub fn of(process: u32, addr: u64, operation: i32, value: u32) -> Option<u32> {
    let memory = File::open(format!("/proc/{process}/mem")).ok()?;
    let word = |addr: u64| {
        let mut bytes = [0; 4];
        memory.read_exact_at(&mut bytes, addr).ok()?;
        Some(u32::from_le_bytes(bytes))
    };
    let is_task = |&tid: &u32| {
        tid != 0 && std::path::Path::new(&format!("/proc/{process}/task/{tid}")).exists()
    };
    let now = word(addr)?;
    if operation == libc::FUTEX_LOCK_PI || now == value && now & WAITERS != 0 {
        return Some(now & HOLDER).filter(is_task);
    }
    if now != value {
        return None;
    }
    let places: &[u64] = if value == CONTENDED {
        &[OWNER]
    } else {
        &WRITER
    };
    let mut named = places
        .iter()
        .filter_map(|distance| word(addr.checked_add(*distance)?));
    named.find(is_task)
}
