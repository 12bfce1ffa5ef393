//! Guest memory as plain data: its map without its content, and bringing it back. Must never take
//! content for the guest's that no one has put there.

use relive_host::{GuestAddr, copy};
use serde::{Deserialize, Serialize};

use super::host_map::{guard_host, host_prot, map_host};
use super::{Memory, Source};
use crate::failure::{Failure, Result, answered};
use crate::space::plain_map::SpaceState;
use crate::space::{AddressSpace, EXEC, READ, Region, WRITE};

/// The map of a guest's memory, and the properties of all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryState {
    /// The regions.
    pub space: SpaceState,
    unnamed: u64,
    on_fork: bool,
    locked: bool,
    lock_future: bool,
}

impl MemoryState {
    /// See [`SpaceState::without_hints`].
    #[must_use]
    pub fn without_hints(&self) -> Self {
        Self {
            space: self.space.without_hints(),
            unnamed: 0,
            ..self.clone()
        }
    }

    /// Memory that is common and has no file is the process's own: nobody else has it.
    pub fn keep_unnamed_private(&mut self) {
        let regions = self.space.regions.iter_mut();
        for region in regions.filter(|r| r.common && r.inode == 0) {
            (region.shared, region.traits.unnamed) = (false, 0);
        }
    }
}

impl Memory {
    /// The description of the memory.
    #[must_use]
    pub fn capture(&self) -> MemoryState {
        MemoryState {
            space: self.space.capture(),
            unnamed: self.unnamed,
            on_fork: self.on_fork,
            locked: self.locked,
            lock_future: self.lock_future,
        }
    }

    /// Puts memory of the same content in the place of what is mapped shared, where `which` wants that of the map that begins
    /// there: a copy of the process sees no more changes of it. The guest's own map stays as it is.
    ///
    /// # Errors
    /// There is no memory.
    pub fn separate(&self, which: impl Fn(u64) -> bool) -> Result<()> {
        let shared = self.space.iter().filter(|r| r.shared && which(r.start));
        for region in shared {
            let bytes = self.content(region.start, region.end)?;
            let own = Region {
                shared: false,
                prot: READ | WRITE,
                ..region.clone()
            };
            answered(map_host(&own, Source::Anon))?
                .map_err(|e| Failure::setup(format!("no memory for a copy: errno {}", -e)))?;
            // All of it has just been mapped so.
            let _ = copy::write(GuestAddr(region.start), &bytes);
            guard_host(region.start, region.end, host_prot(region.prot))?;
        }
        Ok(())
    }

    /// Makes the map that is described, where nothing is mapped so far; `source` gives the source of a
    /// region's content.
    ///
    /// # Errors
    /// There can be no such map, or a map cannot be made.
    pub fn restore(
        &mut self,
        state: &MemoryState,
        mut source: impl FnMut(&Region) -> Result<Source>,
    ) -> Result<()> {
        let space = AddressSpace::restore(&state.space)
            .ok_or_else(|| Failure::setup("a session image has an impossible memory map"))?;
        for region in space.iter() {
            let source = source(region)?;
            answered(self.map(region.clone(), source))?.map_err(|e| {
                Failure::setup(format!(
                    "cannot map memory at {:#x} as a session image has it: errno {}",
                    region.start, -e
                ))
            })?;
        }
        self.space = space;
        (self.unnamed, self.on_fork) = (state.unnamed, state.on_fork);
        (self.locked, self.lock_future) = (state.locked, state.lock_future);
        Ok(())
    }

    /// Writes content into mapped memory whatever its protection, many pages at a time, before any of
    /// it has run. `false`: not all of it is mapped, or it lies behind the end of a file.
    ///
    /// # Errors
    /// The memory cannot be opened, or translations cannot be dropped.
    pub fn fill(&mut self, start: u64, bytes: &[u8]) -> Result<bool> {
        let end = start.saturating_add(bytes.len() as u64);
        if !self.space.is_mapped(start, end) {
            return Ok(false);
        }
        let parts = self.space.overlapping(start, end);
        let parts: Vec<(u64, u64, u32)> = parts
            .map(|r| (r.start.max(start), r.end.min(end), r.prot))
            .collect();
        for (from, to, prot) in parts {
            let part = &bytes[(from - start) as usize..(to - start) as usize];
            let opened = host_prot(prot) & WRITE == 0;
            if opened {
                guard_host(from, to, READ | WRITE)?;
            }
            let wrote = copy::write(GuestAddr(from), part);
            if opened {
                self.settle(from, to)?;
            }
            if prot & EXEC != 0 {
                self.code_changed(from, to)?;
            }
            if wrote.is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
