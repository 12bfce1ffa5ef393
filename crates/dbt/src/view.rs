//! A file in memory: a private map of all of it, which may be written to without changing the
//! file.

use std::fs::File;
use std::os::fd::AsRawFd;

use relive_host::{addr::PAGE, sys};

/// The map.
pub(crate) struct View {
    at: u64,
    len: usize,
}

impl View {
    /// Maps a file of at most this many bytes.
    pub(crate) fn of(file: &File, most: usize) -> Option<Self> {
        let len = usize::try_from(sys::fstat(file.as_raw_fd()).ok()?.st_size).ok()?;
        if len == 0 || len > most {
            return None;
        }
        let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE);
        let flags = flags | libc::MAP_NORESERVE;
        let fd = file.as_raw_fd() as u64;
        let args = [0, len as u64, prot as u64, flags as u64, fd, 0];
        // SAFETY: a fresh map. Files are replaced, never changed, and lie where only their owner
        // can write.
        let at = unsafe { sys::syscall(libc::SYS_mmap as u64, args) };
        (at > 0).then_some(Self { at: at as u64, len })
    }

    /// Address of the first byte.
    pub(crate) fn start(&self) -> usize {
        self.at as usize
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Cuts it at a multiple of the page size and returns the second part.
    pub(crate) fn split_off(&mut self, at: usize) -> Option<Self> {
        let rest = self.len.checked_sub(at)?;
        if !at.is_multiple_of(PAGE as usize) {
            return None;
        }
        self.len = at;
        Some(Self {
            at: self.at + at as u64,
            len: rest,
        })
    }

    /// Populates all pages at once, for a reader of all of them.
    pub(crate) fn populate(&self) {
        let args = [
            self.at,
            self.len as u64,
            libc::MADV_POPULATE_READ as u64,
            0,
            0,
            0,
        ];
        // SAFETY: our own map. An old kernel knows no such advice, which is as good.
        unsafe { sys::syscall(libc::SYS_madvise as u64, args) };
    }

    /// Makes the pages read-only: pages keep their protection where they are moved.
    pub(crate) fn protect(&self) {
        let args = [self.at, self.len as u64, libc::PROT_READ as u64, 0, 0, 0];
        // SAFETY: our own map, which is not written to.
        unsafe { sys::syscall(libc::SYS_mprotect as u64, args) };
    }

    /// Its bytes; no change may be made while they are borrowed.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: our own map of this length, which lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.at as *const u8, self.len) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if self.len == 0 {
            return;
        }
        let args = [self.at, self.len as u64, 0, 0, 0, 0];
        // SAFETY: our own map, which nothing refers to any more.
        unsafe { sys::syscall(libc::SYS_munmap as u64, args) };
    }
}
