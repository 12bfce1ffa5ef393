//! Writes to memory of this process that is mapped read-only: the code cache and the branch table,
//! which a wild store of the guest must not change.
//!
//! The usual way is `/proc/self/mem`: through it the kernel writes to private maps regardless of
//! their protection, and first copies a page that is shared with another process (proc(5)). The
//! page is made writable for the time of the store where there is no such file, where the kernel
//! was told not to allow that, and where other threads may be reading (the kernel copies byte by
//! byte, so they could see half of a value).
//!
//! The descriptor names the memory of the process that opened it. A forked child that used its
//! parent's would write into the parent. So a page that the kernel clears in a child notes that it
//! is open; the child then opens its own at the same number. A replay, which opens nothing, asks
//! its supervisor for it. Processes with a table of descriptors in common and each its own memory have
//! none: a number would name the memory of one of them.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use relive_host::layout::in_cache;
use relive_host::{addr::PAGE, sys};

use crate::cache_window::HASHED;
use crate::own_pages;
use crate::stop::Error;

/// A way to write; clones are the same one.
#[derive(Clone)]
pub(crate) struct Forced(Arc<Shared>);

struct Shared {
    here: &'static Here,
    /// The number of the descriptor, of this process or of the one that it was forked from;
    /// negative before there is one.
    number: AtomicI32,
    floor: i32,
    /// Several threads may be in the cache: a value must be written by one store.
    together: bool,
    /// The source of the descriptor, if not [`open_memory`].
    ask: OnceLock<Ask>,
    /// The error number of the first write that did not come about; 0: none.
    lost: AtomicI32,
}

/// Gives a descriptor of the calling process's memory, to be read and written: in place of `old`,
/// or if that is negative at a number of at least `floor` (the second argument).
pub type Ask = fn(i32, i32) -> Option<i32>;

/// State of this process alone: all zero in a forked child.
#[repr(C)]
struct Here {
    /// `number` names this process's memory.
    open: AtomicBool,
    /// The kernel has refused to open it or to write.
    refused: AtomicBool,
    /// Processes that run in this memory with descriptors of their own.
    guests: AtomicU32,
}

impl Forced {
    /// The descriptor will have a number of at least `floor`. With `together` other threads may be
    /// reading the written memory.
    ///
    /// # Errors
    /// The kernel refuses a page.
    pub(crate) fn new(floor: i32, together: bool) -> Result<Self, Error> {
        Ok(Self(Arc::new(Shared {
            here: here()?,
            number: AtomicI32::new(-1),
            floor,
            together,
            ask: OnceLock::new(),
            lost: AtomicI32::new(0),
        })))
    }

    /// The descriptor, if there is one.
    pub(crate) fn fd(&self) -> Option<i32> {
        Some(self.0.number.load(Relaxed)).filter(|&fd| fd >= 0)
    }

    /// From now on `ask` provides the descriptor, here and in forks of this process.
    pub(crate) fn ask(&self, ask: Ask) {
        let _ = self.0.ask.set(ask);
    }

    /// Another process begins, or ends, to run in this memory with descriptors of its own: none is
    /// opened meanwhile, as only one of the two would have it.
    pub(crate) fn lend(&self, begins: bool) {
        let guests = &self.0.here.guests;
        if begins {
            guests.fetch_add(1, Relaxed);
        } else {
            guests.fetch_sub(1, Relaxed);
        }
    }

    /// The table of descriptors is, or is about to be, that of another process too, which has memory of its own: this
    /// process uses no descriptor any more.
    pub(crate) fn give_up(&self) {
        let here = self.0.here;
        here.refused.store(true, Relaxed);
        here.open.store(false, Relaxed);
        close(self.0.number.swap(-1, Relaxed));
    }

    /// Whether all writes have come about: code and slots are as the translator takes them to be. To be
    /// asked before guest code runs behind a write; a write itself comes in the midst of an emission.
    ///
    /// # Errors
    /// The kernel has refused one, for want of maps.
    pub(crate) fn check(&self) -> Result<(), Error> {
        match self.0.lost.load(Relaxed) {
            0 => Ok(()),
            errno => Err(Error::System {
                what: "changing translated code (vm.max_map_count may be too low)",
                errno,
            }),
        }
    }

    /// Writes bytes to the cache or to the table. Other threads see aligned writes of 1, 4 and 8
    /// bytes all at once. Whether the write came about says [`Forced::check`].
    ///
    /// # Safety
    /// The range lies in the cache or the table, where it is mapped, and may be written to.
    pub(crate) unsafe fn write(&self, at: u64, bytes: &[u8]) {
        if let Some(fd) = self.memory() {
            let args = [fd, bytes.as_ptr() as u64, bytes.len() as u64, at, 0, 0];
            // SAFETY: the descriptor names this process's memory, and the caller owns the range.
            let written = unsafe { sys::syscall(libc::SYS_pwrite64 as u64, args) };
            if written == bytes.len() as isize {
                return;
            }
            self.0.here.refused.store(true, Relaxed);
        }
        // SAFETY: as promised by the caller.
        if let Err(errno) = unsafe { write_opened(at, bytes) } {
            self.0.lost.store(errno, Relaxed);
        }
    }

    /// The descriptor of this process's memory, opened if need be.
    fn memory(&self) -> Option<u64> {
        let (state, here) = (&self.0, self.0.here);
        if here.refused.load(Relaxed) {
            return None;
        }
        if !here.open.load(Relaxed) {
            if state.together || here.guests.load(Relaxed) > 0 {
                return None;
            }
            let old = state.number.load(Relaxed);
            let fd = match state.ask.get() {
                Some(ask) => ask(old, state.floor),
                None => open_memory(old, state.floor),
            };
            match fd {
                Some(fd) => {
                    state.number.store(fd, Relaxed);
                    here.open.store(true, Relaxed);
                }
                None => {
                    here.refused.store(true, Relaxed);
                    return None;
                }
            }
        }
        Some(state.number.load(Relaxed) as u64)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        close(*self.number.get_mut());
    }
}

/// Closes the translator's own descriptor, if there is one.
fn close(fd: i32) {
    if fd >= 0 {
        // SAFETY: the descriptor is the translator's own.
        unsafe { sys::syscall(libc::SYS_close as u64, [fd as u64, 0, 0, 0, 0, 0]) };
    }
}

/// Opens `/proc/self/mem` in place of the descriptor `old`, or, if that is negative, at a number of at
/// least `floor`. `None` if the kernel refuses.
#[must_use]
pub fn open_memory(old: i32, floor: i32) -> Option<i32> {
    let path = c"/proc/self/mem".as_ptr() as u64;
    let flags = (libc::O_RDWR | libc::O_CLOEXEC) as u64;
    // SAFETY: the path outlives the call.
    let low = unsafe { sys::syscall(libc::SYS_open as u64, [path, flags, 0, 0, 0, 0]) };
    let low = u64::try_from(low).ok()?;
    let fd = if old < 0 {
        own_pages::place(low, floor).ok()
    } else {
        replace(old as u64, low)
    };
    i32::try_from(fd?).ok()
}

/// Moves a descriptor in place of another one.
fn replace(old: u64, low: u64) -> Option<u64> {
    let args = [low, old, libc::O_CLOEXEC as u64, 0, 0, 0];
    // SAFETY: both are the translator's own.
    unsafe {
        let fd = sys::syscall(libc::SYS_dup3 as u64, args);
        sys::syscall(libc::SYS_close as u64, [low, 0, 0, 0, 0, 0]);
        u64::try_from(fd).ok()
    }
}

/// Writes with the pages made writable for that time. An error number: they could not be, or stay
/// writable.
///
/// # Safety
/// As [`Forced::write`].
unsafe fn write_opened(at: u64, bytes: &[u8]) -> Result<(), i32> {
    let start = at & !(PAGE - 1);
    let len = (at + bytes.len() as u64).next_multiple_of(PAGE) - start;
    let closed = if in_cache(at) && at < HASHED {
        libc::PROT_READ | libc::PROT_EXEC
    } else {
        libc::PROT_READ
    };
    let protect = |prot: i32| {
        let args = [start, len, prot as u64, 0, 0, 0];
        // SAFETY: the caller owns the range, and its pages are not remapped.
        match unsafe { sys::syscall(libc::SYS_mprotect as u64, args) } {
            0 => Ok(()),
            error => Err(-error as i32),
        }
    };
    protect(closed | libc::PROT_WRITE)?;
    // SAFETY: the range is writable now.
    unsafe { store(at, bytes) };
    protect(closed)
}

/// Writes to writable memory; 1, 4 and 8 bytes by one store.
///
/// # Safety
/// The range may be written to, and no Rust object lives in it.
pub(crate) unsafe fn store(at: u64, bytes: &[u8]) {
    // SAFETY: as promised by the caller. The stores are no Rust accesses, as other threads may be
    // executing or reading there.
    unsafe {
        match *bytes {
            [byte] => std::arch::asm!("mov byte ptr [{}], {}", in(reg) at, in(reg_byte) byte,
                options(nostack, preserves_flags)),
            [a, b, c, d] => std::arch::asm!("mov dword ptr [{}], {:e}", in(reg) at,
                in(reg) u32::from_le_bytes([a, b, c, d]), options(nostack, preserves_flags)),
            [a, b, c, d, e, f, g, h] => std::arch::asm!("mov qword ptr [{}], {}", in(reg) at,
                in(reg) u64::from_le_bytes([a, b, c, d, e, f, g, h]),
                options(nostack, preserves_flags)),
            _ => std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()),
        }
    }
}

/// A page that is all zero in a forked child. It is never released: there is one translator in a
/// process, but for tests.
fn here() -> Result<&'static Here, Error> {
    let what = "mapping a page for the translator";
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let prot = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    // SAFETY: a fresh map that holds one object, for which zeros are a value.
    unsafe {
        let at = sys::syscall(libc::SYS_mmap as u64, [0, PAGE, prot, flags, u64::MAX, 0]);
        Error::check(what, at)?;
        let advice = libc::MADV_WIPEONFORK as u64;
        let args = [at as u64, PAGE, advice, 0, 0, 0];
        Error::check(what, sys::syscall(libc::SYS_madvise as u64, args))?;
        Ok(&*(at as *const Here))
    }
}
