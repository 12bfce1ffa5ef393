//! Guest memory: the map, the pages, and the translations made from them.
//!
//! Every change of the guest's memory goes through here, live and in replay, so that map,
//! pages and translations can not disagree. Host pages must never be executable (guest code
//! runs from the code cache only), and a writable page from which code was translated is
//! kept read-only in the host until it is written (`code`). Otherwise a page has the map's
//! protection (`settle`).

mod access;
mod code;
pub mod content;
mod host_map;
mod moves;
pub mod page_list;
pub mod plain_memory;

use std::collections::BTreeSet;

use relive_dbt::{Options, Translator};
use relive_host::{GuestAddr, addr::PAGE, layout, window};

pub use self::host_map::Source;
use self::host_map::{advise, host_prot, map_host, protect_host, put_back};
use crate::failure::{CallResult, Failure, Result, answered};
use crate::space::{AddressSpace, EXEC, OnFork, Region, WRITE};

/// The guest's memory.
pub struct Memory {
    /// The regions of the map.
    pub space: AddressSpace,
    /// The translations made from them.
    pub translator: Translator,
    /// Pages that the guest may write and the host has made read-only, because code was
    /// translated from them.
    guarded: BTreeSet<u64>,
    /// How often guarded pages have been opened.
    openings: u64,
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
            openings: 0,
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
        let (start, end) = (region.start, region.end);
        assert!(
            layout::guest_may_map_range(start, end),
            "map outside the guest window: {region:x?}"
        );
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
        map_host(&region, source)?;
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

    /// Tells the translator that the guest is about to get memory in a range. Fails if translations
    /// cannot be dropped: half of them are gone then, and an errno would let the guest go on with the
    /// rest.
    fn gets(&mut self, start: u64, end: u64) -> Result<()> {
        let got = self.translator.guest_gets(GuestAddr(start), GuestAddr(end));
        got.map_err(Failure::setup)
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
}
