//! Guest memory: the map, the pages, and the translations made from them.
//!
//! Every change of the guest's memory goes through here, live and in replay, so that map,
//! pages and translations can not disagree. Host pages must never be executable (guest code
//! runs from the code cache only), and a writable page from which code was translated is
//! kept read-only in the host until it is written (`code`). Otherwise a page has the map's
//! protection (`settle`).

mod code;
pub mod content;
mod moves;

use std::collections::BTreeSet;
use std::os::fd::RawFd;

use relive_dbt::{Options, Translator};
use relive_host::{GuestAddr, addr::PAGE, copy, layout, sys, window};

use crate::failure::{CallResult, Failure, Result, answered};
use crate::space::{AddressSpace, EXEC, OnFork, READ, Region, WRITE};

/// The guest's memory.
pub struct Memory {
    /// The regions of the map.
    pub space: AddressSpace,
    /// The translations made from them.
    pub translator: Translator,
    /// Pages that the guest may write and the host has made read-only, because code was
    /// translated from them.
    guarded: BTreeSet<u64>,
    /// Writable pages whose code was translated for one instruction, and which were not guarded.
    open: BTreeSet<u64>,
    /// The number of shared maps without a file made so far.
    unnamed: u64,
    /// Code was translated from memory that other processes may write.
    common_code: bool,
    /// Some region may be dropped or wiped in a forked child (`RegionTraits::on_fork`).
    pub on_fork: bool,
    /// The kernel locks the memory that the guest locks.
    locks_for_real: bool,
    /// Some memory is locked.
    locked: bool,
    /// New maps are locked (mlockall(2)).
    lock_future: bool,
}

/// Whether a copy to guest memory came about.
pub type Copied = std::result::Result<(), copy::BadAddress>;

/// The source of a map's content.
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
    /// The window or the code cache cannot be mapped.
    pub fn new(options: Options, locks_for_real: bool) -> Result<Self> {
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
            open: BTreeSet::new(),
            unnamed: 0,
            common_code: false,
            on_fork: false,
            locks_for_real,
            locked: false,
            lock_future: false,
        })
    }

    /// Maps a region at its address, replacing the maps there. A `shared` map of a file is shared in the
    /// host too.
    ///
    /// # Errors
    /// The errno of mmap(2), or the translations cannot follow.
    pub fn map(&mut self, mut region: Region, source: Source) -> CallResult<()> {
        let (start, len) = (region.start, region.end - region.start);
        assert!(
            layout::guest_may_map_range(start, region.end),
            "map outside the guest window: {region:x?}"
        );
        let end = region.end;
        if !self.has_room(start, end, region.prot) {
            return Err(libc::ENOMEM.into());
        }
        if region.shared && region.inode == 0 {
            self.unnamed += 1;
            region.traits.unnamed = self.unnamed;
        }
        region.traits.locked |= self.lock_future;
        self.locked |= region.traits.locked;
        self.forget_code(start, end)?;
        self.gets(start, end)?;
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
            return Err((got as i64).into());
        }
        self.space.insert(region);
        Ok(self.appears(start, end)?)
    }

    /// Attaches a segment in place of the reserve.
    fn attach(&mut self, region: Region, id: i32) -> CallResult<()> {
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
            return Err((got as i64).into());
        }
        let (start, end) = (region.start, region.end);
        self.space.insert(region);
        Ok(self.appears(start, end)?)
    }

    /// Unmaps a range.
    ///
    /// # Errors
    /// The kernel keeps no more maps apart.
    pub fn unmap(&mut self, start: u64, end: u64) -> Result<()> {
        assert!(
            layout::guest_may_map_range(start, end),
            "unmap outside the guest window: {start:x}-{end:x}"
        );
        self.forget_code(start, end)?;
        put_back(start, end - start)?;
        self.space.remove(start, end);
        self.space.reuse_from(start);
        Ok(())
    }

    /// Changes the protection of a mapped range.
    ///
    /// # Errors
    /// The errno of mprotect(2), or the translations cannot follow.
    pub fn protect(&mut self, start: u64, end: u64, prot: u32) -> CallResult<()> {
        let hole = self.space.mapped_until(start, end);
        if hole < end {
            // As in the kernel, the part before the hole is changed all the same.
            if hole > start {
                self.protect(start, hole, prot)?;
            }
            return Err(libc::ENOMEM.into());
        }
        if prot & EXEC != 0 && !self.space.may_have_code(start, end) {
            return Err(libc::EACCES.into());
        }
        self.forget_code(start, end)?;
        if let Err(e) = protect_host(start, end, host_prot(prot)) {
            // The kernel may have changed some of several regions.
            self.settle(start, end)?;
            return Err(e.into());
        }
        self.space.protect(start, end, prot);
        Ok(self.appears(start, end)?)
    }

    /// Frees the pages of shared memory: all maps of them show zeros (madvise(2), `MADV_REMOVE`).
    ///
    /// # Errors
    /// The errno of madvise(2), or the translations cannot follow.
    pub fn remove(&mut self, start: u64, end: u64) -> CallResult<()> {
        self.forget_code(start, end)?;
        self.code_changed(start, end)?;
        let shared = self.space.at(start).is_some_and(|r| r.shared);
        // Memory of one process alone is private in the host.
        let advice = if shared {
            libc::MADV_REMOVE
        } else {
            libc::MADV_DONTNEED
        };
        advise(start, end, advice)
    }

    /// Marks the regions in a range as locked or unlocked, without asking the kernel.
    pub fn lock(&mut self, start: u64, end: u64, locked: bool) {
        self.locked |= locked;
        self.space.change(start, end, |t| t.locked = locked);
    }

    /// Sets whether new maps are locked.
    pub fn lock_future(&mut self, locked: bool) {
        self.lock_future = locked;
    }

    /// See [`Memory::lock_future`].
    #[must_use]
    pub fn locks_future(&self) -> bool {
        self.lock_future
    }

    /// Drops the parts of its parent's memory that a forked child does not inherit.
    ///
    /// # Errors
    /// It has it all the same.
    pub fn forked(&mut self) -> Result<()> {
        self.lock_future = false;
        if std::mem::take(&mut self.locked) {
            self.space.change(0, u64::MAX, |t| t.locked = false);
        }
        if !std::mem::take(&mut self.on_fork) {
            return Ok(());
        }
        let all = self
            .space
            .iter()
            .map(|r| (r.start, r.end, r.traits.on_fork));
        for (start, end, on_fork) in all.collect::<Vec<_>>() {
            match on_fork {
                OnFork::Keep => {}
                OnFork::Drop => self.unmap(start, end)?,
                OnFork::Wipe => {
                    // As the kernel, which wipes as much as it can.
                    let _ = answered(self.discard(start, end))?;
                    self.on_fork = true;
                }
            }
        }
        Ok(())
    }

    /// Extends a region that grows downwards to `addr`: the next region above, if it may grow so far.
    /// Nothing may be mapped between, and it becomes as large as the first thread's stack at most.
    /// Returns whether it has grown.
    ///
    /// # Errors
    /// The translations cannot follow.
    pub fn grow(&mut self, addr: u64) -> Result<bool> {
        let page = addr & !(PAGE - 1);
        if self.space.at(addr).is_some() {
            return Ok(false);
        }
        let Some(above) = self.space.after(addr).filter(|r| r.traits.grows).cloned() else {
            return Ok(false);
        };
        let stack = self.space.at(layout::STACK_TOP - 1);
        let most = stack.map_or(0, |r| r.end - r.start);
        // One page stays free above an accessible map below: maps are made upwards here, and so lie
        // closer together than the kernel would place them.
        let near = page.saturating_sub(PAGE);
        let accessible = |r: &Region| r.prot != 0 && !r.traits.grows;
        if !layout::guest_may_map_range(page, above.end)
            || above.end - page > most
            || self.space.overlapping(near, page).any(accessible)
        {
            return Ok(false);
        }
        let part = Region {
            end: above.start,
            start: page,
            ..above
        };
        Ok(answered(self.map(part, Source::Anon))?.is_ok())
    }

    /// Drops the contents of anonymous memory, or returns private file memory to the file's
    /// (madvise `MADV_DONTNEED`). For memory that the kernel has locked too, this needs Linux 5.18.
    ///
    /// # Errors
    /// The errno of madvise(2), or the translations cannot follow.
    pub fn discard(&mut self, start: u64, end: u64) -> CallResult<()> {
        const MADV_DONTNEED_LOCKED: i32 = 24;
        self.forget_code(start, end)?;
        let locked = self.space.at(start).is_some_and(|r| r.traits.locked);
        let advice = match locked && self.locks_for_real {
            true => MADV_DONTNEED_LOCKED,
            false => libc::MADV_DONTNEED,
        };
        advise(start, end, advice)
    }

    /// Writes host data into guest memory regardless of the pages' protection (program images, the
    /// kernel's writes on a tape).
    ///
    /// # Errors
    /// A page cannot be opened. Within: the first address that is not mapped.
    pub fn poke(&mut self, addr: u64, bytes: &[u8]) -> Result<Copied> {
        let mut done = 0;
        while done < bytes.len() {
            let at = addr + done as u64;
            // Where the map is read-only, the write would fault first.
            let page = if self.space.at(at).is_some_and(|r| r.prot & WRITE == 0) {
                at
            } else {
                match copy::write(GuestAddr(at), &bytes[done..]) {
                    // Pages that the host can write have no translations.
                    Ok(()) => break,
                    Err(copy::BadAddress(bad)) => {
                        done = (bad.0 - addr) as usize;
                        bad.0
                    }
                }
            };
            if let Err(bad) = self.poke_page(page, bytes, &mut done)? {
                return Ok(Err(bad));
            }
        }
        Ok(Ok(()))
    }

    /// Tells the translator that the guest is about to get memory in a range. Fails if translations
    /// cannot be dropped: half of them are gone then, and an errno would let the guest go on with the
    /// rest.
    fn gets(&mut self, start: u64, end: u64) -> Result<()> {
        let got = self.translator.guest_gets(GuestAddr(start), GuestAddr(end));
        got.map_err(Failure::setup)
    }

    fn poke_page(&mut self, at: u64, bytes: &[u8], done: &mut usize) -> Result<Copied> {
        let bad = copy::BadAddress(GuestAddr(at));
        if self.space.at(at).is_none() {
            return Ok(Err(bad));
        }
        let page = at & !(PAGE - 1);
        if self.write_fault(at)? {
            return Ok(Ok(()));
        }
        let n = ((page + PAGE - at) as usize).min(bytes.len() - *done);
        if protect_host(page, page + PAGE, READ | WRITE).is_err() {
            return Ok(Err(bad));
        }
        let wrote = copy::write(GuestAddr(at), &bytes[*done..*done + n]);
        self.settle(page, page + PAGE)?;
        self.code_changed(page, page + PAGE)?;
        if wrote.is_ok() {
            *done += n;
        }
        Ok(wrote)
    }

    /// The content of mapped memory, whether the guest may read it or not; zeros behind the end of a file.
    ///
    /// # Errors
    /// It cannot be opened to the host.
    pub fn content(&self, start: u64, end: u64) -> Result<Vec<u8>> {
        let mut bytes = vec![0; (end - start) as usize];
        let parts = self.space.overlapping(start, end);
        for (from, to) in parts.map(|r| (r.start.max(start), r.end.min(end))) {
            // Behind the end of a file the read fails, and zeros stay.
            let part = &mut bytes[(from - start) as usize..(to - start) as usize];
            let _ = self.uncovered(from, to, || copy::read(GuestAddr(from), part))?;
        }
        Ok(bytes)
    }

    /// Runs `f` while the host may read a part of a region, even if the guest may not.
    ///
    /// # Errors
    /// The kernel does not let it.
    pub fn uncovered<R>(&self, start: u64, end: u64, f: impl FnOnce() -> R) -> Result<R> {
        let prot = self.space.at(start).map_or(READ, |r| r.prot);
        if host_prot(prot) & READ != 0 {
            return Ok(f());
        }
        let (start, end) = (start & !(PAGE - 1), (end + PAGE - 1) & !(PAGE - 1));
        guard_host(start, end, READ)?;
        let result = f();
        self.settle(start, end)?;
        Ok(result)
    }

    /// The content of the memory that other processes share. A region is cut where it cannot be read:
    /// behind the end of its file.
    #[must_use]
    pub fn common_contents(&self) -> Vec<(u64, Vec<u8>)> {
        let common = self.space.iter().filter(|r| r.shared && r.prot & READ != 0);
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

    /// Whether annex and branch table allow a map with this protection in a range.
    fn has_room(&self, start: u64, end: u64, prot: u32) -> bool {
        let is_annex = (layout::ANNEX_START..layout::ANNEX_END).contains(&start);
        (prot & EXEC == 0 || self.space.may_have_code(start, end))
            && (!is_annex || self.gives_annex())
    }

    /// Whether the guest may map the annex: the branch table has no slots there, now or later.
    fn gives_annex(&self) -> bool {
        self.space.annex_is_free()
            && !self
                .translator
                .has_slots(layout::ANNEX_CODE_START, layout::ANNEX_CODE_END)
    }

    /// Updates translations and code ranges for a range that has been mapped, or has got a new
    /// protection, the same for all of it.
    fn appears(&mut self, start: u64, end: u64) -> Result<()> {
        let writable = |r: &Region| r.shared && r.prot & WRITE != 0;
        if self.space.overlapping(start, end).any(writable) {
            // Its code at other addresses is guarded here too from its next translation on.
            self.code_changed(start, end)?;
        }
        match self.space.at(start) {
            Some(r) if r.prot & EXEC != 0 => self.add_code(start, end),
            _ => Ok(()),
        }
    }

    /// Applies the map's protection to the pages of a range; pages that hold translated code stay
    /// read-only.
    fn settle(&self, start: u64, end: u64) -> Result<()> {
        for r in self.space.overlapping(start, end) {
            guard_host(start.max(r.start), end.min(r.end), host_prot(r.prot))?;
        }
        for &page in self.guarded.range(start..end) {
            guard_host(page, page + PAGE, READ)?;
        }
        Ok(())
    }

    /// Makes a page of mapped memory inaccessible for a while.
    ///
    /// # Errors
    /// The kernel keeps no more maps apart.
    pub fn close(&self, page: u64) -> Result<()> {
        guard_host(page, page + PAGE, 0)
    }

    /// Makes such a page accessible again.
    ///
    /// # Errors
    /// The same.
    pub fn reopen(&self, page: u64) -> Result<()> {
        self.settle(page, page + PAGE)
    }
}

/// The host's protection for guest memory: never executable, readable where executable.
fn host_prot(prot: u32) -> u32 {
    let mut host = prot & (READ | WRITE);
    if prot & (EXEC | WRITE) != 0 {
        host |= READ;
    }
    host
}

/// Changes the host's protection of mapped guest memory.
fn protect_host(start: u64, end: u64, prot: u32) -> std::result::Result<(), i32> {
    let args = [start, end - start, u64::from(prot), 0, 0, 0];
    // SAFETY: the callers name mapped guest memory, to which the host holds no reference; its content
    // stays.
    let got = unsafe { sys::syscall(libc::SYS_mprotect as u64, args) };
    if got < 0 { Err(-got as i32) } else { Ok(()) }
}

/// The same for the host's own purposes: memory that is guarded by half is wrong already.
fn guard_host(start: u64, end: u64, prot: u32) -> Result<()> {
    protect_host(start, end, prot).map_err(|e| too_many_maps("change the protection of", start, e))
}

/// Gives a range back to the reserve that the kernel has unmapped, or that is to be unmapped.
fn put_back(start: u64, len: u64) -> Result<()> {
    // SAFETY: the callers name parts of the window that are the guest's to lose.
    let got = unsafe { window::release(start, len) };
    match got {
        0.. => Ok(()),
        e => Err(too_many_maps("release", start, -e as i32)),
    }
}

/// The kernel refuses a change of the host's map of guest memory, for want of maps (proc(5)).
fn too_many_maps(change: &str, start: u64, errno: i32) -> Failure {
    Failure::setup(format!(
        "cannot {change} memory at {start:#x} (errno {errno}): raise vm.max_map_count"
    ))
}

/// madvise(2) of guest memory.
fn advise(start: u64, end: u64, advice: i32) -> CallResult<()> {
    let args = [start, end - start, advice as u64, 0, 0, 0];
    // SAFETY: the callers name guest memory, to which the host holds no reference.
    match unsafe { sys::syscall(libc::SYS_madvise as u64, args) } {
        0.. => Ok(()),
        e => Err((e as i64).into()),
    }
}
