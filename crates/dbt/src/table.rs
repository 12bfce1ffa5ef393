//! The branch table: one slot per byte of the guest's low window, read by the code of
//! indirect branches (`jmp [target*8 + TABLE]`) without any check of its own.
//!
//! Slot `a` serves jumps and calls to `a` and returns to `a + 1` (which follows a call, so `a` lies
//! inside that call). A slot belongs to the landing set first: every landing checks that it was
//! meant. The table cannot be written at its addresses: slots are set by force ([`crate::forced`]).
//! Memory is mapped in chunks, where guest code is, and comes prefilled: even slots lead to one
//! stub, odd ones to another, so that a miss tells jumps from returns.

use std::sync::atomic::{AtomicU64, Ordering};

use relive_host::layout::{LOW_END, TABLE};
use relive_host::{sys, window};

use crate::cache_window::TABLE_MISS;
use crate::forced::Forced;
use crate::kept_slots::PageRun;
use crate::own_pages;
use crate::stop::Error;

/// Guest bytes served by a chunk. Larger chunks make a larger executable; smaller ones cost
/// large programs more mappings.
const CHUNK_GUEST: u64 = 256 << 10;
/// Bytes of a chunk.
const CHUNK: u64 = CHUNK_GUEST * 8;

/// A chunk of unused slots. It is part of the executable, so that a process that starts need not
/// fill any: chunks are private maps of it.
#[repr(C, align(4096))]
struct Chunk([[u64; 2]; CHUNK as usize / 16]);

static UNUSED: Chunk = Chunk([TABLE_MISS; CHUNK as usize / 16]);

/// The table's memory.
pub(crate) struct Table {
    fd: i32,
    /// Offset of a chunk of unused slots in that file.
    offset: u64,
    mapped: Vec<bool>,
    forced: Forced,
}

impl Table {
    /// Makes an empty table whose unused slots lead to [`TABLE_MISS`].
    pub(crate) fn new(fd_floor: i32, own_file: Option<i32>, forced: Forced) -> Result<Self, Error> {
        // SAFETY: the static is plain bytes.
        let bytes =
            unsafe { std::slice::from_raw_parts((&raw const UNUSED).cast::<u8>(), CHUNK as usize) };
        let (fd, offset) = own_pages::open(bytes, fd_floor, own_file)?;
        Ok(Self {
            fd,
            offset,
            mapped: vec![false; (LOW_END / CHUNK_GUEST) as usize],
            forced,
        })
    }

    /// The file descriptor that chunks are mapped from.
    pub(crate) fn fd(&self) -> i32 {
        self.fd
    }

    /// Makes slots for branches to `start..end` (cut to the low window).
    pub(crate) fn add_range(&mut self, start: u64, end: u64) -> Result<(), Error> {
        let end = end.min(LOW_END);
        if start >= end {
            return Ok(());
        }
        for chunk in start.saturating_sub(1) / CHUNK_GUEST..=(end - 1) / CHUNK_GUEST {
            if !self.mapped[chunk as usize] {
                self.map(chunk)?;
                self.mapped[chunk as usize] = true;
            }
        }
        Ok(())
    }

    /// Whether any address in a range (not empty, in the low window) has a slot.
    pub(crate) fn has_slots(&self, start: u64, end: u64) -> bool {
        (start / CHUNK_GUEST..=(end - 1) / CHUNK_GUEST).any(|c| self.mapped[c as usize])
    }

    /// Gives every slot its default value.
    pub(crate) fn clear(&mut self) -> Result<(), Error> {
        (0..self.mapped.len())
            .filter(|c| self.mapped[*c])
            .try_for_each(|c| self.map(c as u64))
    }

    fn map(&self, chunk: u64) -> Result<(), Error> {
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let args = [
            TABLE + chunk * CHUNK,
            CHUNK,
            libc::PROT_READ as u64,
            flags as u64,
            self.fd as u64,
            self.offset,
        ];
        // SAFETY: the range belongs to the branch table, reserved for this mapping alone.
        let ret = unsafe { sys::syscall(libc::SYS_mmap as u64, args) };
        Error::check("mapping the branch table", ret).map(drop)
    }

    /// The slot of a guest address, where it is mapped.
    fn slot(&self, addr: u64) -> Option<&AtomicU64> {
        let chunk = self.mapped.get(usize::try_from(addr / CHUNK_GUEST).ok()?)?;
        // SAFETY: the slot lies in a mapped chunk, is aligned, and is only ever accessed
        // atomically (by emitted code as whole 8-byte loads); the mapping is never removed.
        chunk.then(|| unsafe { &*((TABLE + addr * 8) as *const AtomicU64) })
    }

    /// Whether the slot of `addr` is mapped.
    pub(crate) fn is_mapped(&self, addr: u64) -> bool {
        self.slot(addr).is_some()
    }

    /// Whether the slot of `addr` is mapped and has its default value.
    pub(crate) fn is_free(&self, addr: u64) -> bool {
        self.slot(addr)
            .is_some_and(|s| s.load(Ordering::Relaxed) == TABLE_MISS[(addr & 1) as usize])
    }

    /// Makes branches through the slot of `addr` go to `landing`.
    pub(crate) fn set(&mut self, addr: u64, landing: u64) {
        if self.is_mapped(addr) {
            self.store(addr, landing);
        }
    }

    /// Replaces the pages that a run names, if all of these are mapped; `kept` is the address of
    /// the new ones, in a private map of a file that nothing else uses. Slots that were set there
    /// are lost: branches to them miss once more. If the kernel cannot move the pages, they stay
    /// unset.
    pub(crate) fn adopt(&mut self, run: PageRun, kept: u64) {
        let (start, end) = run.bytes();
        let mut chunks = start / CHUNK..end.div_ceil(CHUNK);
        if start == end || !chunks.all(|c| self.mapped.get(c as usize) == Some(&true)) {
            return;
        }
        let len = end - start;
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
        let args = [kept, len, len, flags as u64, TABLE + start, 0];
        // SAFETY: the source is as the caller says; the target is a part of the table, whose pages
        // may be replaced while no thread of this process runs in the cache: its slots hold default
        // values or landings for their own addresses, before and after.
        unsafe { sys::syscall(libc::SYS_mremap as u64, args) };
    }

    /// Resets the slot of `addr` if it leads to `landing`.
    pub(crate) fn unset(&mut self, addr: u64, landing: u64) {
        if let Some(slot) = self.slot(addr)
            && slot.load(Ordering::Relaxed) == landing
        {
            self.store(addr, TABLE_MISS[(addr & 1) as usize]);
        }
    }

    /// Sets a slot that is mapped.
    fn store(&self, addr: u64, landing: u64) {
        // SAFETY: the slot lies in a mapped chunk, is aligned, and is only ever read by others.
        unsafe { self.forced.write(TABLE + addr * 8, &landing.to_le_bytes()) };
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        for chunk in (0..self.mapped.len()).filter(|c| self.mapped[*c]) {
            // SAFETY: the chunk is ours; the caller lets no thread run in the cache any more.
            unsafe { window::release(TABLE + chunk as u64 * CHUNK, CHUNK) };
        }
        // SAFETY: closes our own descriptor.
        unsafe { sys::syscall(libc::SYS_close as u64, [self.fd as u64, 0, 0, 0, 0, 0]) };
    }
}
