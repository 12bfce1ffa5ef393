//! The translations of guest memory, and how changes to translated code are noticed. A page that the
//! guest may write must never be translated without its guard, unless the translation is dropped at once.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use relive_dbt::{Code, Translator};
use relive_host::{GuestAddr, addr::PAGE, copy, layout};

use super::Memory;
use super::host_map::guard_host;
use crate::failure::{Failure, Result};
use crate::ordered_sites;
use crate::shm::shared;
use crate::space::{AddressSpace, EXEC, READ, Region, WRITE};

impl Memory {
    /// Drops the translations of a range whose content has changed, at all addresses that show it.
    ///
    /// # Errors
    /// They cannot be dropped.
    pub fn code_changed(&mut self, start: u64, end: u64) -> Result<()> {
        let mut views = self.space.code_views(start, end).into_iter();
        views.try_for_each(|(start, end)| self.drop_code(start, end))
    }

    fn drop_code(&mut self, start: u64, end: u64) -> Result<()> {
        let dropped = self.translator.invalidate(GuestAddr(start), GuestAddr(end));
        dropped.map_err(Failure::setup)
    }

    /// Handles a write to a page that only the host made read-only: translations are
    /// dropped, the page becomes writable. `false` if the fault is the guest's own.
    ///
    /// # Errors
    /// The page cannot be opened.
    pub fn write_fault(&mut self, addr: u64) -> Result<bool> {
        let page = addr & !(PAGE - 1);
        self.unguard(page, page + PAGE)
    }

    /// Opens the guarded pages of a range, for the guest or for the kernel (which would answer
    /// EFAULT), and drops their translations. Returns whether there are any.
    ///
    /// # Errors
    /// The pages cannot be opened.
    pub fn unguard(&mut self, start: u64, end: u64) -> Result<bool> {
        let pages = self.guarded.range(start & !(PAGE - 1)..end);
        let pages: Vec<u64> = pages.copied().collect();
        let (Some(first), Some(last)) = (pages.first(), pages.last()) else {
            return Ok(false);
        };
        for page in &pages {
            self.guarded.remove(page);
            self.code_changed(*page, page + PAGE)?;
        }
        self.openings += 1;
        self.settle(*first, last + PAGE)?;
        Ok(true)
    }

    /// Drops the translations of common memory, after another process has run that may have written
    /// to it. (This process's own writes are noticed page by page.)
    ///
    /// # Errors
    /// They cannot be dropped.
    pub fn forget_common_code(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.common_code) {
            return Ok(());
        }
        let common: Vec<(u64, u64)> = self
            .space
            .iter()
            .filter(|r| r.common && r.prot & EXEC != 0)
            .map(|r| (r.start, r.end))
            .collect();
        common
            .into_iter()
            .try_for_each(|(start, end)| self.drop_code(start, end))
    }

    /// Whether the map of a range may change only while no thread is in the code cache: code was
    /// translated from it, or the pairing of calls and returns there ends with the map.
    #[must_use]
    pub fn needs_quiet(&self, start: u64, end: u64) -> bool {
        let (start, end) = (GuestAddr(start), GuestAddr(end));
        self.translator.flushes_for(start, end) || self.translator.has_code(start, end)
    }

    /// Drops the translations and the guards of a range whose map is about to change.
    pub(super) fn forget_code(&mut self, start: u64, end: u64) -> Result<()> {
        self.unguard(start, end)?;
        self.drop_code(start, end)
    }

    /// Makes room in the branch table for code at a place that is mapped already: the answer to its
    /// call is the kernel's number.
    pub(super) fn add_code(&mut self, start: u64, end: u64) -> Result<()> {
        if layout::is_low(start) {
            let end = end.min(layout::LOW_END);
            self.translator
                .add_code_range(GuestAddr(start), GuestAddr(end))
                .map_err(Failure::setup)?;
            if self
                .space
                .at(start)
                .is_some_and(|r| r.prot & WRITE == 0 && !r.shared)
            {
                self.translator.activate(start, end, &mut same);
            }
        }
        Ok(())
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

    /// How often guarded pages have been opened: while it is the same, a page that is open was open.
    #[must_use]
    pub fn openings(&self) -> u64 {
        self.openings
    }

    /// Drops the translations of pages that were not guarded.
    ///
    /// # Errors
    /// They cannot be dropped.
    pub fn forget_unguarded(&mut self) -> Result<()> {
        let mut open = std::mem::take(&mut self.open).into_iter();
        open.try_for_each(|page| self.code_changed(page, page + PAGE))
    }

    /// Runs `f` with the translator and a view of the guest's code. The view guards the writable pages
    /// that are read; without `guard`, the caller drops their translations afterwards.
    ///
    /// # Errors
    /// A page could not be guarded. The translator took it for no code.
    pub fn with_code<R>(
        &mut self,
        guard: bool,
        f: impl FnOnce(&mut Translator, &dyn Code) -> R,
    ) -> Result<R> {
        let view = CodeView {
            space: &self.space,
            guard,
            guarded: RefCell::new(&mut self.guarded),
            open: RefCell::new(&mut self.open),
            common: Cell::new(false),
            failure: Cell::new(None),
        };
        let result = f(&mut self.translator, &view);
        self.common_code |= view.common.get();
        match view.failure.into_inner() {
            None => Ok(result),
            Some(failure) => Err(failure),
        }
    }
}

struct CodeView<'a> {
    space: &'a AddressSpace,
    /// Whether writable pages are to be guarded.
    guard: bool,
    /// The guarded pages.
    guarded: RefCell<&'a mut BTreeSet<u64>>,
    /// The writable pages that were read without a guard.
    open: RefCell<&'a mut BTreeSet<u64>>,
    /// Common memory was read.
    common: Cell<bool>,
    /// Why a page could not be guarded: the translator asks in the midst of a fragment.
    failure: Cell<Option<Failure>>,
}

impl CodeView<'_> {
    /// Prepares to read a page that may be written, at this address or another that shows it: guards it
    /// first at each writable address. Later writes of other threads are noticed.
    fn reads(&self, page: u64) -> Result<()> {
        let mut guarded = self.guarded.borrow_mut();
        for (view, _) in self.space.views(page, page + PAGE) {
            if !self.space.may_write(view) || guarded.contains(&view) {
                continue;
            }
            if self.guard {
                guarded.insert(view);
                guard_host(view, view + PAGE, READ)?;
            } else {
                self.open.borrow_mut().insert(page);
            }
        }
        Ok(())
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
        // Its file may end before. A page behind that must not be guarded: a replay has closed it, and a guard is readable.
        let there = |buf: &mut [u8]| match copy::read(pc, buf) {
            Ok(()) => buf.len(),
            Err(copy::BadAddress(at)) => (at.0 - pc.0) as usize,
        };
        let n = there(&mut buf[..n as usize]);
        if writable && n != 0 {
            let (first, last) = (pc.0 & !(PAGE - 1), (pc.0 + n as u64 - 1) & !(PAGE - 1));
            let reads = match last == first {
                true => self.reads(first),
                false => self.reads(first).and_then(|()| self.reads(last)),
            };
            if let Err(failure) = reads {
                self.failure.set(Some(failure));
                return 0;
            }
            return there(&mut buf[..n]);
        }
        n
    }

    fn lasting(&self, pc: GuestAddr) -> bool {
        let writable = |r: &Region| r.prot & WRITE != 0 || r.shared || r.common;
        let region = self.space.at(pc.0).filter(|r| r.prot & EXEC != 0);
        region.is_some_and(|r| !writable(r))
    }

    fn meets(&self, site: u64) {
        ordered_sites::meets(shared(), site);
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
