//! Linking direct branches to fragments, and taking fragments out of use.

use crate::behind::new_epoch;
use crate::entry::{ENTRIES, Entry};
use crate::exit::{ExitKind, NONE, UNLINKED};
use crate::translator::Translator;

impl Translator {
    /// Links the exits from `first` on whose targets are translated already.
    pub(crate) fn link_new(&mut self, first: usize) {
        for number in first..self.exits.next() {
            let exit = self.exits.all[number];
            let Some(kind) = exit.kind().and_then(ExitKind::entry) else {
                continue;
            };
            let Some(id) = self.frags.find(exit.pc) else {
                continue;
            };
            if let Some(at) = self.frags.get(id).entry(kind) {
                self.link(number as u32, id, at);
            }
        }
    }

    /// Makes the branch of exit `number` go to entry `at` of fragment `id`.
    pub(crate) fn link(&mut self, number: u32, id: u32, at: u32) {
        let exit = &mut self.exits.all[number as usize];
        // Another thread may have come through the same stub before.
        if exit.linked() {
            return;
        }
        let target = self.frags.get_mut(id);
        exit.next_incoming = target.incoming;
        target.incoming = number;
        self.exits.cache.patch_branch(exit.site, at);
        self.stats.links += 1;
    }

    /// Takes a fragment out of use: all links to it are removed, and a thread that is just about to
    /// enter it faults at its entry and is resolved by guest address.
    pub(crate) fn kill(&mut self, id: u32) {
        new_epoch();
        let fragment = *self.frags.get(id);
        let mut number = fragment.incoming;
        while number != NONE {
            let exit = &mut self.exits.all[number as usize];
            self.exits.cache.patch_branch(exit.site, exit.stub);
            number = std::mem::replace(&mut exit.next_incoming, UNLINKED);
        }
        if let Some(landing) = fragment.entry(Entry::Jump) {
            self.table.unset(fragment.pc, u64::from(landing));
        }
        if let Some(landing) = fragment.entry(Entry::Return) {
            self.table
                .unset(fragment.pc.wrapping_sub(1), u64::from(landing));
        }
        for (kind, is_return) in [(Entry::HashedJump, false), (Entry::HashedReturn, true)] {
            if let Some(landing) = fragment.entry(kind) {
                self.hashed
                    .unset(is_return, fragment.pc, u64::from(landing));
            }
        }
        for kind in ENTRIES {
            if let Some(at) = fragment.entry(kind) {
                self.exits.cache.kill_entry(at);
            }
        }
        for at in self.frags.landings(id) {
            self.exits.cache.kill_entry(at);
        }
        self.frags.retire(id);
        self.units.killed(id);
    }
}
