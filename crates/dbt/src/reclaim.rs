//! Room in the cache: units one after the other, and the fate of those that are out of use.
//!
//! Code goes away in two steps. A fragment is taken out of use at once ([`Translator::kill`]): no
//! link and no slot leads to it, and a thread that is just about to enter it faults. Other threads
//! may be in it still, and shadows may have its landings. So the room of its unit is used again only
//! after [`Translator::reclaim`], for which every thread has left the cache and knows no place in
//! it. Nothing else may ever write where code has been.

#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::addr_map::AddrMap;
use crate::behind::new_epoch;
use crate::exit::{ExitRecord, NONE, UNLINKED};
use crate::fragments::Hot;
use crate::stop::{Bad, Error};
use crate::translator::Translator;
use crate::units::{CachePlace, CacheUnit, Extent, Need};

/// A full cache has this part of its room free again.
const PART: u64 = 4;

/// Room for so many of the largest fragments is enough to go on with.
const SOME: u32 = 2;

impl Translator {
    /// Makes room for so much. Returns the place where it begins.
    pub(crate) fn make_room(&mut self, need: Need, pc: u64) -> Result<CachePlace, Bad> {
        let full = Bad::CacheFull { pc: pc.into() };
        let here = self.place();
        if !self.units.has_room(here, need) {
            self.close_unit();
            if let Some(extent) = self.units.take_free(need) {
                self.fill_anew(extent);
            } else if self.units.ask() {
                return Err(full);
            }
        }
        if !self.exits.cache.has_room(need.bytes) {
            return Err(full);
        }
        self.exits.cache.prepare()?;
        if self.exits.next() == 0 {
            self.exits.add_misses();
        }
        if !self.units.is_open() {
            self.units.open(self.place(), None);
        }
        Ok(self.place())
    }

    /// Makes the room of code that is out of use free, and of more code if the cache is full: the
    /// code translated first goes then. No thread may be in the cache, nor know a place in it.
    ///
    /// # Errors
    /// As [`Translator::flush`].
    pub fn reclaim(&mut self) -> Result<(), Error> {
        self.close_unit();
        let need = self.need(self.options.max_insns, false);
        let some = Need {
            bytes: SOME * need.bytes,
            marks: SOME * need.marks,
            exits: SOME * need.exits,
        };
        let (bytes, own) = (self.options.cache_bytes, self.units.bytes());
        let mut gone = Vec::new();
        while let Some(unit) = self.units.take_retired() {
            self.forget(unit, &mut gone);
        }
        while !self.exits.cache.has_room(need.bytes)
            && (self.units.free_bytes() < bytes / PART || !self.units.has_free(some))
        {
            // Kept translations may have taken most of the cache.
            let oldest = self.units.take_oldest().filter(|_| own > bytes / 2);
            let Some(unit) = oldest else {
                return self.flush();
            };
            self.forget(unit, &mut gone);
        }
        new_epoch();
        self.shadow.forget(&gone);
        self.stats.reclaims += 1;
        self.exits.cache.settle()
    }

    /// How far the cache and its lists are filled.
    pub(crate) fn place(&self) -> CachePlace {
        let (hot, cold) = self.exits.cache.ends();
        CachePlace {
            hot,
            cold,
            frags: self.frags.next_id(),
            marks: self.frags.next_mark(),
            exits: self.exits.next() as u32,
        }
    }

    /// Ends the unit that is being filled, if there is one.
    pub(crate) fn close_unit(&mut self) {
        let need = self.need(self.options.max_insns, false);
        self.units.close(self.place(), need);
        self.exits.cache.end_anew();
        self.frags.seek_end();
        self.exits.all.seek_end();
    }

    /// From now on fills an extent that nothing refers to.
    fn fill_anew(&mut self, extent: Extent) {
        let (from, to) = (extent.from, extent.to);
        self.frags.clear_place(from.frags, to.frags, to.hot);
        self.frags.seek(from.frags, from.marks);
        self.exits.all.seek(from.exits as usize);
        self.exits.cache.fill_anew(extent.hot(), to.cold..from.cold);
        self.units.open(from, Some(to));
    }

    /// Forgets a unit with all that refers to it but for shadows: `gone` gets the range of its code.
    fn forget(&mut self, unit: CacheUnit, gone: &mut Vec<Hot>) {
        let (extent, hot) = (unit.extent, unit.extent.hot());
        let within = |at: &u32| hot.contains(at);
        for id in unit.ids().chain(unit.late.iter().copied()) {
            let fragment = self.frags.get(id);
            if fragment.is_live() && fragment.entries.iter().any(within) {
                self.kill(id);
                self.stats.evicted += 1;
            }
        }
        self.unlink(extent.from.exits..extent.to.exits);
        unit.ids().for_each(|id| self.frags.forget(id));
        for id in &unit.late {
            self.frags.forget_entries(*id, &hot);
        }
        // A way in that was overlooked must not lead to other code.
        self.exits.cache.kill_all(hot.clone());
        self.stats.reclaimed_bytes += u64::from(extent.bytes());
        self.units.release(extent);
        gone.push(hot);
    }

    /// Takes these exits out of the chains of the fragments that they are linked to: their numbers
    /// will be those of others.
    fn unlink(&mut self, numbers: Range<u32>) {
        let all = &mut self.exits.all;
        let mut targets: AddrMap<()> = AddrMap::default();
        for number in numbers.clone() {
            let exit = &all[number as usize];
            if exit.linked() {
                targets.insert(exit.pc, ());
            }
        }
        for pc in targets.into_keys() {
            let id = self.frags.find(pc).expect("what is linked to is in use");
            let mut number = std::mem::replace(&mut self.frags.get_mut(id).incoming, NONE);
            while number != NONE {
                let exit = &mut all[number as usize];
                let next = exit.next_incoming;
                if !numbers.contains(&number) {
                    let incoming = &mut self.frags.get_mut(id).incoming;
                    exit.next_incoming = std::mem::replace(incoming, number);
                } else {
                    exit.next_incoming = UNLINKED;
                }
                number = next;
            }
        }
        for number in numbers {
            let exit = &mut all[number as usize];
            assert!(!exit.linked(), "exit {number} is in no chain");
            *exit = ExitRecord::none();
        }
    }
}
