//! Guest memory as it really is: the map, the pages, and the translations made from them.
//!
//! Every change of the guest's memory goes through here, live and in replay, so that map,
//! pages and translations can not disagree. Host pages are never executable (guest code
//! runs from the code cache only), and a writable page from which code was translated is
//! kept read-only in the host until it is written (`write_fault`).

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::os::fd::RawFd;
use std::sync::Arc;

use relive_dbt::{Code, Options, Translator};
use relive_host::{GuestAddr, addr::PAGE, copy, layout, sys, window};

use crate::failure::{Failure, Result};
use crate::space::{AddressSpace, EXEC, OnFork, READ, Region, WRITE};

/// The guest's memory.
pub struct Memory {
    /// Which regions there are.
    pub space: AddressSpace,
    /// What was translated from them.
    pub translator: Translator,
    /// Pages that the guest may write and the host has made read-only, because code was
    /// translated from them.
    guarded: BTreeSet<u64>,
    /// Code was translated from memory that other processes may write.
    common_code: bool,
    /// A forked child may get something else than a copy (`Traits::on_fork`).
    pub on_fork: bool,
}

/// What is to be mapped.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// Zeros.
    Anon,
    /// A file, through this (host) descriptor, at this offset.
    File(RawFd, u64),
    /// A System V segment, by its id.
    Segment(i32),
}

impl Memory {
    /// An empty guest over a reserved window.
    ///
    /// # Errors
    /// The window or the code cache cannot be had.
    pub fn new(options: Options) -> Result<Self> {
        window::reserve().map_err(|e| {
            Failure::setup(format!(
                "cannot reserve the address range of the guest at {:#x} (errno {}): lift the limit on address space (`ulimit -v unlimited`)",
                e.start, e.errno
            ))
        })?;
        let translator = Translator::new(options).map_err(Failure::setup)?;
        Ok(Self {
            space: AddressSpace::new(),
            translator,
            guarded: BTreeSet::new(),
            common_code: false,
            on_fork: false,
        })
    }

    /// Maps a region at its address, replacing what was there. `shared` maps of a file stay
    /// shared. Returns the kernel's error number on refusal.
    ///
    /// # Errors
    /// The errno of mmap(2).
    pub fn map(&mut self, region: Region, source: Source) -> std::result::Result<(), i32> {
        let (start, len) = (region.start, region.end - region.start);
        assert!(
            layout::guest_may_map_range(start, region.end),
            "map outside the guest window: {region:x?}"
        );
        let end = region.end;
        if region.prot & EXEC != 0 && !self.space.may_have_code(start, end)
            || (layout::ANNEX_START..layout::ANNEX_END).contains(&start) && !self.gives_annex()
        {
            return Err(libc::ENOMEM);
        }
        self.forget_code(start, end);
        self.gets(start, end);
        let mut flags = libc::MAP_FIXED | libc::MAP_NORESERVE;
        flags |= if region.shared {
            libc::MAP_SHARED
        } else {
            libc::MAP_PRIVATE
        };
        let (fd, offset) = match source {
            Source::Anon => {
                flags |= libc::MAP_ANONYMOUS;
                (u64::MAX, 0)
            }
            Source::File(fd, offset) => (fd as u64, offset),
            Source::Segment(id) => return self.attach(region, id),
        };
        let host = u64::from(host_prot(region.prot));
        // SAFETY: the range lies in the guest window (asserted), which belongs to the guest.
        let got = unsafe {
            sys::syscall(
                libc::SYS_mmap as u64,
                [start, len, host, flags as u64, fd, offset],
            )
        };
        if got < 0 {
            return Err(-got as i32);
        }
        let prot = region.prot;
        self.space.insert(region);
        if prot & EXEC != 0 {
            self.add_code(start, end);
        }
        Ok(())
    }

    /// Attaches a segment in place of the reserve. Its pages are there for as long as it is.
    fn attach(&mut self, region: Region, id: i32) -> std::result::Result<(), i32> {
        let mut flags = libc::SHM_REMAP;
        if region.prot & WRITE == 0 {
            flags |= libc::SHM_RDONLY;
        }
        // SAFETY: the range lies in the guest window (asserted by the caller) and has the
        // size of the segment.
        let got = unsafe {
            sys::syscall(
                libc::SYS_shmat as u64,
                [id as u64, region.start, flags as u64, 0, 0, 0],
            )
        };
        if got < 0 {
            return Err(-got as i32);
        }
        self.space.insert(region);
        Ok(())
    }

    /// Unmaps a range.
    pub fn unmap(&mut self, start: u64, end: u64) {
        assert!(
            layout::guest_may_map_range(start, end),
            "unmap outside the guest window: {start:x}-{end:x}"
        );
        self.forget_code(start, end);
        // SAFETY: the range lies in the guest window.
        let got = unsafe { window::release(start, end - start) };
        assert!(
            got >= 0,
            "the kernel refused to release guest memory: errno {}",
            -got
        );
        self.space.remove(start, end);
        self.space.reuse_from(start);
    }

    /// Changes the protection of a mapped range.
    ///
    /// # Errors
    /// The errno of mprotect(2).
    pub fn protect(&mut self, start: u64, end: u64, prot: u32) -> std::result::Result<(), i32> {
        let hole = self.space.mapped_until(start, end);
        if hole < end {
            // Up to there it is done all the same.
            if hole > start {
                self.protect(start, hole, prot)?;
            }
            return Err(libc::ENOMEM);
        }
        if prot & EXEC != 0 && !self.space.may_have_code(start, end) {
            return Err(libc::EACCES);
        }
        self.forget_code(start, end);
        // SAFETY: the range is mapped guest memory.
        let got = unsafe {
            sys::syscall(
                libc::SYS_mprotect as u64,
                [start, end - start, u64::from(host_prot(prot)), 0, 0, 0],
            )
        };
        if got < 0 {
            return Err(-got as i32);
        }
        self.space.protect(start, end, prot);
        if prot & EXEC != 0 {
            self.add_code(start, end);
        }
        Ok(())
    }

    /// Moves or resizes what mremap(2) moves: pages go from one range to another, or grow
    /// where they are. `new` must be free (or the grown old range).
    ///
    /// # Errors
    /// The errno of mremap(2).
    pub fn remap(&mut self, old: (u64, u64), new: (u64, u64)) -> std::result::Result<(), i32> {
        let region = self.space.at(old.0).cloned().ok_or(libc::EFAULT)?;
        self.forget_code(old.0, old.1);
        self.gets(new.0, new.1);
        let (old_len, new_len) = (old.1 - old.0, new.1 - new.0);
        if new.0 == old.0 && new_len > old_len {
            // The reserve lies behind the old range; only a fresh mapping can take its place.
            // SAFETY: the caller made sure that the range behind is free guest window.
            let got = unsafe {
                sys::syscall(
                    libc::SYS_munmap as u64,
                    [old.1, new_len - old_len, 0, 0, 0, 0],
                )
            };
            assert!(got >= 0, "the reserve can be unmapped");
        }
        let flags = if new.0 == old.0 {
            0
        } else {
            libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED
        };
        // SAFETY: both ranges are guest memory; a fixed target replaces reserve only.
        let got = unsafe {
            sys::syscall(
                libc::SYS_mremap as u64,
                [old.0, old_len, new_len, flags as u64, new.0, 0],
            )
        };
        if got < 0 {
            if new.0 == old.0 && new_len > old_len {
                // SAFETY: puts the reserve back where it was.
                unsafe { window::release(old.1, new_len - old_len) };
            }
            return Err(-got as i32);
        }
        if new.0 != old.0 {
            // SAFETY: the pages have moved away; the hole goes back to the reserve.
            unsafe { window::release(old.0, old_len) };
            self.space.remove(old.0, old.1);
        } else if new_len < old_len {
            // SAFETY: mremap has unmapped the tail.
            unsafe { window::release(new.1, old_len - new_len) };
            self.space.remove(new.1, old.1);
        }
        let offset = region.offset + (old.0 - region.start);
        self.space.insert(Region {
            start: new.0,
            end: new.1,
            offset,
            ..region
        });
        Ok(())
    }

    /// Maps the pages from `old` at `new` and leaves the old range mapped: the same memory under
    /// a second name if `old_len` is 0 (shared maps only), and otherwise without content
    /// (mremap(2), `MREMAP_DONTUNMAP`).
    ///
    /// # Errors
    /// The errno of mremap(2).
    pub fn remap_beside(
        &mut self,
        old: u64,
        old_len: u64,
        new: (u64, u64),
    ) -> std::result::Result<(), i32> {
        let region = self.space.at(old).cloned().ok_or(libc::EFAULT)?;
        let keeps = if old_len == 0 {
            0
        } else {
            libc::MREMAP_DONTUNMAP
        };
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | keeps;
        self.forget_code(old, old + old_len);
        self.forget_code(new.0, new.1);
        self.gets(new.0, new.1);
        // SAFETY: both ranges are guest memory; the target is free.
        let got = unsafe {
            sys::syscall(
                libc::SYS_mremap as u64,
                [old, old_len, new.1 - new.0, flags as u64, new.0, 0],
            )
        };
        if got < 0 {
            return Err(-got as i32);
        }
        let offset = region.offset + (old - region.start);
        let prot = region.prot;
        self.space.insert(Region {
            start: new.0,
            end: new.1,
            offset,
            ..region
        });
        if prot & EXEC != 0 {
            self.add_code(new.0, new.1);
        }
        Ok(())
    }

    /// Frees the pages of shared memory: whoever maps them sees zeros (madvise(2),
    /// `MADV_REMOVE`). The kernel's answer.
    pub fn remove(&mut self, start: u64, end: u64) -> i64 {
        self.forget_code(start, end);
        let shared = self.space.at(start).is_some_and(|r| r.shared);
        // Of one process alone, which shares with nobody.
        let advice = if shared {
            libc::MADV_REMOVE
        } else {
            libc::MADV_DONTNEED
        };
        // SAFETY: the range is guest memory.
        unsafe {
            sys::syscall(
                libc::SYS_madvise as u64,
                [start, end - start, advice as u64, 0, 0, 0],
            ) as i64
        }
    }

    /// In a forked child: what it does not get of its parent's memory.
    pub fn forked(&mut self) {
        if !std::mem::take(&mut self.on_fork) {
            return;
        }
        let all = self
            .space
            .iter()
            .map(|r| (r.start, r.end, r.traits.on_fork));
        for (start, end, what) in all.collect::<Vec<_>>() {
            match what {
                OnFork::Keep => {}
                OnFork::Drop => self.unmap(start, end),
                OnFork::Wipe => {
                    self.discard(start, end);
                    self.on_fork = true;
                }
            }
        }
    }

    /// Makes a region that grows downwards reach to `addr`, if there is one that may: the
    /// next above, with nothing mapped between, and as large as the first thread's stack at
    /// most. Says whether.
    pub fn grow(&mut self, addr: u64) -> bool {
        let page = addr & !(PAGE - 1);
        if self.space.at(addr).is_some() {
            return false;
        }
        let Some(above) = self.space.after(addr).filter(|r| r.traits.grows).cloned() else {
            return false;
        };
        let stack = self.space.at(crate::loader::STACK_TOP - 1);
        let most = stack.map_or(0, |r| r.end - r.start);
        // One page is left to what lies below: maps are made upwards here, and so lie closer
        // than the kernel would lay them.
        let near = page.saturating_sub(PAGE);
        let accessible = |r: &Region| r.prot != 0 && !r.traits.grows;
        if !layout::guest_may_map_range(page, above.end)
            || above.end - page > most
            || self.space.overlapping(near, page).any(accessible)
        {
            return false;
        }
        let part = Region {
            end: above.start,
            start: page,
            ..above
        };
        self.map(part, Source::Anon).is_ok()
    }

    /// Drops the contents of anonymous memory, or returns private file memory to the file's
    /// (madvise `MADV_DONTNEED`).
    pub fn discard(&mut self, start: u64, end: u64) -> i64 {
        self.forget_code(start, end);
        // SAFETY: the range is guest memory.
        unsafe {
            sys::syscall(
                libc::SYS_madvise as u64,
                [start, end - start, libc::MADV_DONTNEED as u64, 0, 0, 0],
            ) as i64
        }
    }

    /// Writes host data into guest memory whatever the page's protection (program images,
    /// the kernel's view of a tape).
    ///
    /// # Errors
    /// The first address that is not mapped.
    pub fn poke(&mut self, addr: u64, bytes: &[u8]) -> std::result::Result<(), copy::BadAddress> {
        let mut done = 0;
        while done < bytes.len() {
            match copy::write(GuestAddr(addr + done as u64), &bytes[done..]) {
                Ok(()) => {
                    if self.space.at(addr).is_some_and(|r| r.prot & EXEC != 0) {
                        self.code_changed(addr, addr + bytes.len() as u64);
                    }
                    return Ok(());
                }
                Err(copy::BadAddress(at)) => {
                    done = (at.0 - addr) as usize;
                    self.poke_page(at.0, bytes, &mut done)?;
                }
            }
        }
        Ok(())
    }

    /// Drops what was translated from a range whose content has changed behind the guest's
    /// back.
    pub fn code_changed(&mut self, start: u64, end: u64) {
        self.translator.invalidate(GuestAddr(start), GuestAddr(end));
    }

    /// The guest is about to get memory in a range.
    fn gets(&mut self, start: u64, end: u64) {
        if let Err(e) = self.translator.guest_gets(GuestAddr(start), GuestAddr(end)) {
            crate::failure::die(&Failure::setup(e));
        }
    }

    fn poke_page(
        &mut self,
        at: u64,
        bytes: &[u8],
        done: &mut usize,
    ) -> std::result::Result<(), copy::BadAddress> {
        let bad = copy::BadAddress(GuestAddr(at));
        let prot = self.space.at(at).ok_or(bad)?.prot;
        let page = at & !(PAGE - 1);
        if self.write_fault(at) {
            return Ok(());
        }
        let n = ((page + PAGE - at) as usize).min(bytes.len() - *done);
        let set = |prot: u32| {
            // SAFETY: one mapped guest page.
            unsafe {
                sys::syscall(
                    libc::SYS_mprotect as u64,
                    [page, PAGE, u64::from(prot), 0, 0, 0],
                )
            }
        };
        set(READ | WRITE);
        let wrote = copy::write(GuestAddr(at), &bytes[*done..*done + n]);
        set(host_prot(prot));
        wrote?;
        self.translator
            .invalidate(GuestAddr(page), GuestAddr(page + PAGE));
        *done += n;
        Ok(())
    }

    /// Handles a write to a page that only the host made read-only: translations are
    /// dropped, the page becomes writable. `false` if the fault is the guest's own.
    pub fn write_fault(&mut self, addr: u64) -> bool {
        let page = addr & !(PAGE - 1);
        if !self.guarded.remove(&page) {
            return false;
        }
        for alias in self.space.aliases(page) {
            self.translator
                .invalidate(GuestAddr(alias), GuestAddr(alias + PAGE));
        }
        self.set_guard(page, READ | WRITE);
        true
    }

    /// Another process has run that may have written to common memory: code in it may have
    /// changed. (What this process writes itself is noticed page by page.)
    pub fn forget_common_code(&mut self) {
        if !std::mem::take(&mut self.common_code) {
            return;
        }
        let common: Vec<(u64, u64)> = self
            .space
            .iter()
            .filter(|r| r.common && r.prot & EXEC != 0)
            .map(|r| (r.start, r.end))
            .collect();
        for (start, end) in common {
            self.translator.invalidate(GuestAddr(start), GuestAddr(end));
        }
    }

    /// What the memory holds that other processes may write, without pages of zeros at the
    /// ends of a region.
    #[must_use]
    pub fn common_contents(&self) -> Vec<(u64, Vec<u8>)> {
        let common = self.space.iter().filter(|r| r.common && r.prot & READ != 0);
        common
            .map(|r| {
                let mut bytes = vec![0; (r.end - r.start) as usize];
                if let Err(copy::BadAddress(at)) = copy::read(GuestAddr(r.start), &mut bytes) {
                    bytes.truncate((at.0 - r.start) as usize);
                }
                (r.start, bytes)
            })
            .filter(|(_, bytes)| !bytes.is_empty())
            .collect()
    }

    /// Lets the kernel write into a range (it would answer EFAULT for guarded pages).
    pub fn unguard(&mut self, start: u64, end: u64) {
        if self.guarded.is_empty() {
            return;
        }
        let pages: Vec<u64> = self
            .guarded
            .range(start & !(PAGE - 1)..end)
            .copied()
            .collect();
        for page in pages {
            self.write_fault(page);
        }
    }

    /// Write-protects the pages that code has just been translated from.
    fn guard(&mut self, pages: &[u64]) {
        for &page in pages {
            if self.guarded.insert(page) {
                self.set_guard(page, READ);
            }
        }
    }

    fn set_guard(&self, page: u64, prot: u32) {
        // SAFETY: one mapped guest page; only its host protection changes.
        let got = unsafe {
            sys::syscall(
                libc::SYS_mprotect as u64,
                [page, PAGE, u64::from(prot), 0, 0, 0],
            )
        };
        if got < 0 {
            crate::failure::die(&Failure::setup(format!(
                "cannot protect a page of code (errno {}): raise vm.max_map_count",
                -got
            )));
        }
    }

    fn forget_code(&mut self, start: u64, end: u64) {
        let pages: Vec<u64> = self.guarded.range(start..end).copied().collect();
        for page in pages {
            self.guarded.remove(&page);
        }
        self.translator.invalidate(GuestAddr(start), GuestAddr(end));
    }

    /// Whether the annex is the guest's to map: the table has no slots there, now or later.
    fn gives_annex(&self) -> bool {
        self.space.annex_is_free()
            && !self
                .translator
                .has_slots(layout::ANNEX_CODE_START, layout::ANNEX_CODE_END)
    }

    fn add_code(&mut self, start: u64, end: u64) {
        if layout::is_low(start) {
            let end = end.min(layout::LOW_END);
            if let Err(e) = self
                .translator
                .add_code_range(GuestAddr(start), GuestAddr(end))
            {
                crate::failure::die(&Failure::setup(e));
            }
            if self
                .space
                .at(start)
                .is_some_and(|r| r.prot & WRITE == 0 && !r.shared)
            {
                self.translator.activate(start, end, &mut same);
            }
        }
    }

    /// Guest code that a later process may find at the same place again: of private files,
    /// in the low window, not writable.
    #[must_use]
    pub fn lasting_code(&self) -> Vec<(u64, u64)> {
        let lasting =
            |r: &&Region| r.prot & EXEC != 0 && r.prot & WRITE == 0 && !r.shared && r.inode != 0;
        let low = |r: &Region| r.end <= layout::LOW_END;
        self.space
            .iter()
            .filter(lasting)
            .filter(|r| low(r))
            .map(|r| (r.start, r.end))
            .collect()
    }

    /// Whether only the host protects this address from being written.
    #[must_use]
    pub fn is_guarded(&self, addr: u64) -> bool {
        self.guarded.contains(&(addr & !(PAGE - 1)))
    }

    /// Drops what was translated from the page of `addr`.
    pub fn forget_page(&mut self, addr: u64) {
        for alias in self.space.aliases(addr & !(PAGE - 1)) {
            self.translator
                .invalidate(GuestAddr(alias), GuestAddr(alias + PAGE));
        }
    }

    /// Runs `f` with the translator and a view of the guest's code, then guards the writable
    /// pages that were read (unless the caller will drop their translations itself).
    pub fn with_code<R>(
        &mut self,
        guard: bool,
        f: impl FnOnce(&mut Translator, &dyn Code) -> R,
    ) -> R {
        let view = CodeView {
            space: &self.space,
            writable: RefCell::new(Vec::new()),
            common: Cell::new(false),
        };
        let result = f(&mut self.translator, &view);
        let pages = view.writable.into_inner();
        self.common_code |= view.common.get();
        if guard && !pages.is_empty() {
            self.guard(&pages);
        }
        result
    }
}

struct CodeView<'a> {
    space: &'a AddressSpace,
    /// Guest-writable pages that were read.
    writable: RefCell<Vec<u64>>,
    /// Common memory was read.
    common: Cell<bool>,
}

impl CodeView<'_> {
    /// Remembers a page and its other names, as far as they can be written.
    fn note_writable(&self, page: u64) {
        let mut pages = self.writable.borrow_mut();
        for alias in self.space.aliases(page) {
            if self.space.at(alias).is_some_and(|r| r.prot & WRITE != 0) && !pages.contains(&alias)
            {
                pages.push(alias);
            }
        }
    }
}

impl Code for CodeView<'_> {
    fn fetch(&self, pc: GuestAddr, buf: &mut [u8; 16]) -> usize {
        let Some(region) = self.space.at(pc.0).filter(|r| r.prot & EXEC != 0) else {
            return 0;
        };
        let mut n = 16.min(region.end - pc.0);
        let mut writable = region.prot & WRITE != 0 || region.shared;
        let mut common = region.common;
        if n < 16
            && let Some(next) = self.space.at(region.end).filter(|r| r.prot & EXEC != 0)
        {
            n = 16.min(next.end - pc.0);
            writable |= next.prot & WRITE != 0 || next.shared;
            common |= next.common;
        }
        self.common.set(self.common.get() || common);
        let n = n as usize;
        if copy::read(pc, &mut buf[..n]).is_err() {
            return 0;
        }
        if writable {
            for page in [pc.0 & !(PAGE - 1), (pc.0 + n as u64 - 1) & !(PAGE - 1)] {
                self.note_writable(page);
            }
        }
        n
    }

    fn lasting(&self, pc: GuestAddr) -> bool {
        let writable = |r: &Region| r.prot & WRITE != 0 || r.shared || r.common;
        let region = self.space.at(pc.0).filter(|r| r.prot & EXEC != 0);
        region.is_some_and(|r| !writable(r))
    }
}

/// Whether guest memory holds these bytes.
fn same(mut at: u64, bytes: &[u8]) -> bool {
    let mut seen = [0; PAGE as usize];
    bytes.chunks(seen.len()).all(|expected| {
        let seen = &mut seen[..expected.len()];
        let equal = copy::read(GuestAddr(at), seen).is_ok() && seen == expected;
        at += expected.len() as u64;
        equal
    })
}

/// The host's protection for guest memory: never executable, readable where executable.
fn host_prot(prot: u32) -> u32 {
    let mut host = prot & (READ | WRITE);
    if prot & (EXEC | WRITE) != 0 {
        host |= READ;
    }
    host
}

/// A name for anonymous memory.
#[must_use]
pub fn unnamed() -> Arc<str> {
    Arc::from("")
}
