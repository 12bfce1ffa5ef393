//! The second mapping of the free part of the code cache: the same memory, writable, at an address
//! of the host's that nothing in the guest leads to.
//!
//! At the addresses where it is executed the memory is mapped privately. Pages of a file that have
//! not been written to through a private map show the file's content as it is (Linux; mmap(2)
//! leaves it open). So the content stays when this mapping is gone, for this process and for its
//! forks, and single pages can still be changed by [`crate::forced`].

use relive_host::sys;

use crate::stop::Error;

/// Pages of the cache, and their writable addresses.
pub(crate) struct Alias {
    start: u32,
    end: u32,
    /// Start of the second mapping; `None` where the kernel gives no memory that can be mapped
    /// twice (a limit on the size of files, which this memory counts as): all writes are forced.
    at: Option<u64>,
    /// Pages between these addresses are not populated yet; several are populated at a time.
    absent: (u32, u32),
}

/// Bytes to populate at a time.
const AHEAD: u32 = 16 << 10;

impl Alias {
    /// Maps fresh memory over these pages of the cache.
    ///
    /// # Errors
    /// The kernel refuses a map over the window reserved for the cache.
    pub(crate) fn new(start: u32, end: u32) -> Result<Self, Error> {
        let len = u64::from(end - start);
        let at = twice(start, len);
        if at.is_none() && len > 0 {
            let ret = map(start.into(), len, CODE, ANONYMOUS, u64::MAX);
            Error::check("mapping the code cache", ret)?;
        }
        Ok(Self {
            start,
            end,
            at,
            absent: (start, end),
        })
    }

    /// Populates the pages of `len` bytes at this address, and of the bytes to be written next.
    fn populate(&mut self, at: u32, len: u32) {
        let (low, high) = self.absent;
        if at + len <= low || at >= high {
            return;
        }
        // From the start upwards or from the end downwards, as the cache grows.
        let upwards = at.saturating_sub(low) <= high.saturating_sub(at + len);
        let (start, end) = match upwards {
            true => (low, (at + len).next_multiple_of(AHEAD).min(high)),
            false => (((at / AHEAD) * AHEAD).max(low), high),
        };
        if upwards {
            self.absent.0 = end;
        } else {
            self.absent.1 = start;
        }
        let Some(base) = self.at else { return };
        let from = base + u64::from(start - self.start);
        let args = [
            from,
            u64::from(end - start),
            libc::MADV_POPULATE_WRITE as u64,
            0,
            0,
            0,
        ];
        // SAFETY: our own map. Where the kernel does not know this the pages come one by one.
        unsafe { sys::syscall(libc::SYS_madvise as u64, args) };
    }

    /// Its pages of the cache: from the first address up to the second one. Only through it may they be written to, if it has
    /// a second mapping.
    pub(crate) fn pages(&self) -> (u32, u32) {
        (self.start, self.end)
    }

    /// The writable address of `len` bytes at this address of the cache, if there is one.
    pub(crate) fn of(&mut self, at: u32, len: usize) -> Option<u64> {
        let inside = at >= self.start && at as usize + len <= self.end as usize;
        let base = self.at.filter(|_| inside)?;
        self.populate(at, len as u32);
        Some(base + u64::from(at - self.start))
    }
}

impl Drop for Alias {
    fn drop(&mut self) {
        if let Some(at) = self.at {
            unmap(at, u64::from(self.end - self.start));
        }
    }
}

const CODE: i32 = libc::PROT_READ | libc::PROT_EXEC;
const PRIVATE: i32 = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
const ANONYMOUS: i32 = PRIVATE | libc::MAP_ANONYMOUS;

/// Maps fresh memory privately over a part of the cache, and once more to be written.
fn twice(start: u32, len: u64) -> Option<u64> {
    if len == 0 || len > longest_file() {
        return None;
    }
    // SAFETY: the name outlives the call.
    let fd = unsafe {
        let args = [
            c"code".as_ptr() as u64,
            libc::MFD_CLOEXEC.into(),
            0,
            0,
            0,
            0,
        ];
        sys::syscall(libc::SYS_memfd_create as u64, args)
    };
    let fd = u64::try_from(fd).ok()?;
    let at = written(fd, len).filter(|&at| {
        let there = map(start.into(), len, CODE, PRIVATE, fd) >= 0;
        if !there {
            unmap(at, len);
        }
        there
    });
    // SAFETY: our own descriptor; the maps keep the memory.
    unsafe { sys::syscall(libc::SYS_close as u64, [fd, 0, 0, 0, 0, 0]) };
    at
}

/// The mapping to write through. A forked child does not get it.
fn written(fd: u64, len: u64) -> Option<u64> {
    // SAFETY: our own descriptor.
    if unsafe { sys::syscall(libc::SYS_ftruncate as u64, [fd, len, 0, 0, 0, 0]) } < 0 {
        return None;
    }
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let at = map(0, len, prot, libc::MAP_SHARED, fd);
    let at = u64::try_from(at).ok()?;
    // SAFETY: our own fresh map.
    unsafe {
        let args = [at, len, libc::MADV_DONTFORK as u64, 0, 0, 0];
        sys::syscall(libc::SYS_madvise as u64, args)
    };
    Some(at)
}

/// The limit on the size of files: exceeding it raises a signal.
fn longest_file() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: fills the structure.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    limit.rlim_cur
}

fn map(at: u64, len: u64, prot: i32, flags: i32, fd: u64) -> isize {
    let args = [at, len, prot as u64, flags as u64, fd, 0];
    // SAFETY: a fresh map, or one over a part of the cache that holds nothing yet.
    unsafe { sys::syscall(libc::SYS_mmap as u64, args) }
}

fn unmap(at: u64, len: u64) {
    // SAFETY: our own map, which nothing refers to any more.
    unsafe { sys::syscall(libc::SYS_munmap as u64, [at, len, 0, 0, 0, 0]) };
}
