//! What is translated from guest memory, and how changes of it are noticed.

use std::cell::{Cell, RefCell};

use relive_dbt::{Code, Translator};
use relive_host::{GuestAddr, addr::PAGE, copy, layout};

use super::{Memory, protect_host};
use crate::failure::Failure;
use crate::space::{AddressSpace, EXEC, READ, Region, WRITE};

impl Memory {
    /// Drops what was translated from a range whose content has changed behind the guest's
    /// back.
    pub fn code_changed(&mut self, start: u64, end: u64) {
        self.translator.invalidate(GuestAddr(start), GuestAddr(end));
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
        if let Err(e) = protect_host(page, page + PAGE, prot) {
            crate::failure::die(&Failure::setup(format!(
                "cannot protect a page of code (errno {e}): raise vm.max_map_count"
            )));
        }
    }

    pub(super) fn forget_code(&mut self, start: u64, end: u64) {
        let pages: Vec<u64> = self.guarded.range(start..end).copied().collect();
        for page in pages {
            self.guarded.remove(&page);
        }
        self.translator.invalidate(GuestAddr(start), GuestAddr(end));
    }

    pub(super) fn add_code(&mut self, start: u64, end: u64) {
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
