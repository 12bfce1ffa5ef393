//! The host's own access to guest memory, whether the guest has it or not: the protection of pages is
//! changed for that time. Must never leave a page with another protection than the map and the
//! translations ask for.

use relive_host::{GuestAddr, addr::PAGE, copy};

use super::Memory;
use super::host_map::{guard_host, host_prot, protect_host};
use crate::failure::Result;
use crate::space::{READ, WRITE};

/// Whether a copy to guest memory came about.
pub type Copied = std::result::Result<(), copy::BadAddress>;

impl Memory {
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

    /// Applies the map's protection to the pages of a range; pages that hold translated code stay
    /// read-only.
    pub(super) fn settle(&self, start: u64, end: u64) -> Result<()> {
        for r in self.space.overlapping(start, end) {
            guard_host(start.max(r.start), end.min(r.end), host_prot(r.prot))?;
        }
        for &page in self.guarded.range(start..end) {
            guard_host(page, page + PAGE, READ)?;
        }
        Ok(())
    }
}
