//! The translator: all its state, and its interface.

use std::collections::BTreeSet;
use std::ptr::NonNull;

use relive_host::{GuestAddr, layout};
use xxhash_rust::xxh3::xxh3_128;

use crate::addr_map::AddrMap;
use crate::align::{LINE, SHORT};
use crate::behind::new_epoch;
use crate::cache::Cache;
use crate::code::{Code, Window};
use crate::decode::{Decoded, Insn};
use crate::emit::Asm;
use crate::entry::Entry;
use crate::exits::Exits;
use crate::forced::{Ask, Forced};
use crate::fragments::Fragments;
use crate::hashed::Hashed;
use crate::mangle::INSN_BYTES;
use crate::marks::Mark;
use crate::neighbours::Neighbours;
use crate::options::{Options, Pairs};
use crate::own_pages;
use crate::passes::Passes;
use crate::shadow::Shadow;
use crate::sites;
use crate::stats::{Counters, Stats};
use crate::stop::{Bad, Error};
use crate::table::Table;
use crate::units::Units;
use crate::watched::Watched;

/// Bytes of one executable map from which on a program is large: it has more hot returns than a
/// processor's indirect predictor holds.
const LARGE: u64 = 8 << 20;

/// Translates guest code and connects the translations. One per process: the code cache
/// and the branch table have fixed addresses. Used by one thread at a time; other threads
/// may be running in the cache meanwhile, except during [`Translator::flush`] and
/// [`Translator::reclaim`].
pub struct Translator {
    pub(crate) options: Options,
    pub(crate) exits: Exits,
    pub(crate) table: Table,
    pub(crate) frags: Fragments,
    pub(crate) units: Units,
    pub(crate) asm: Asm,
    pub(crate) marks: Vec<Mark>,
    /// Fragments translated here, without those for stepping, and fragments taken over. Unlike
    /// `stats` they influence decisions.
    pub(crate) fresh: u64,
    pub(crate) taken_over: u64,
    pub(crate) stats: Counters,
    /// Guest addresses that fragments stop at.
    pub(crate) breakpoints: BTreeSet<u64>,
    pub(crate) passes: Passes,
    /// The atomic instructions near plain ones, if those are ordered.
    pub(crate) neighbours: Neighbours,
    pub(crate) hashed: Hashed,
    forced: Forced,
    pub(crate) shadow: Shadow,
    /// Whether calls and returns are translated as pairs from now on.
    pub(crate) pairs: bool,
    /// Whether some calls and returns may have been paired.
    pub(crate) paired: bool,
    /// Branches in low code that have been seen to lead out of the low window.
    pub(crate) hashed_sites: AddrMap<()>,
    /// Guest addresses with landings that branches to other targets have reached.
    pub(crate) misled: AddrMap<()>,
    /// Guest addresses of fragments that have a plain access which is ordered. Each process is to translate
    /// these itself, and so tell of the sites that it has met.
    pub(crate) with_sites: AddrMap<()>,
    /// Names this build of the translator: its executable and its options.
    build: Vec<u8>,
}

impl Translator {
    /// Maps the code cache over its part of the reserved window.
    ///
    /// # Errors
    /// The kernel refuses memory or a descriptor.
    pub fn new(options: Options) -> Result<Self, Error> {
        new_epoch();
        let options = options.checked();
        let forced = Forced::new(options.fd_floor, options.together)?;
        let exits = Exits::new(Cache::new(options.cache_bytes, forced.clone()));
        let table = Table::new(options.fd_floor, options.own_file, forced.clone())?;
        let mut build = own_pages::identity(table.fd())?;
        for word in [
            options.max_insns.into(),
            options.cache_bytes,
            options.pairs as u64,
            options.short_blocks.into(),
            options.loops.into(),
            options.at_pause as u64,
        ] {
            build.extend_from_slice(&word.to_le_bytes());
        }
        let block = if options.short_blocks { SHORT } else { LINE };
        let (asm, marks, stats) = (Asm::in_blocks(block), Vec::new(), Counters::own());
        Ok(Self {
            options,
            exits,
            table,
            frags: Fragments::default(),
            units: Units::new(options.cache_bytes, options.max_insns * INSN_BYTES),
            asm,
            marks,
            fresh: 0,
            taken_over: 0,
            stats,
            breakpoints: BTreeSet::new(),
            passes: Passes::chosen(&options),
            neighbours: Neighbours::default(),
            hashed: Hashed::new(forced.clone()),
            forced,
            hashed_sites: AddrMap::default(),
            misled: AddrMap::default(),
            with_sites: AddrMap::default(),
            shadow: Shadow::default(),
            pairs: options.pairs == Pairs::Always,
            paired: false,
            build,
        })
    }

    /// Makes branch table slots for guest code in `start..end`. Must be called for every
    /// executable mapping in the low window before (or soon after) code there runs:
    /// without slots each indirect branch to it costs a host signal.
    ///
    /// # Errors
    /// The kernel refuses memory.
    pub fn add_code_range(&mut self, start: GuestAddr, end: GuestAddr) -> Result<(), Error> {
        let large = end.0 - start.0 >= LARGE;
        self.pairs |= large && self.options.pairs == Pairs::Large && !self.shadow.is_forbidden();
        self.table.add_range(start.0, end.0)
    }

    /// The guest is about to get memory in `start..end`. If shadows of its stacks might lie there,
    /// or stacks can have none there, calls are no longer paired. No thread may be in the cache.
    ///
    /// # Errors
    /// As [`Translator::flush`].
    pub fn guest_gets(&mut self, start: GuestAddr, end: GuestAddr) -> Result<(), Error> {
        if !self.ends_pairs(start, end) {
            return Ok(());
        }
        self.forbid_pairs();
        if self.paired { self.flush() } else { Ok(()) }
    }

    /// Whether [`Translator::guest_gets`] forgets everything there.
    #[must_use]
    pub fn flushes_for(&self, start: GuestAddr, end: GuestAddr) -> bool {
        self.paired && self.ends_pairs(start, end)
    }

    /// Whether there can be no paired calls beside guest memory in a range.
    fn ends_pairs(&self, start: GuestAddr, end: GuestAddr) -> bool {
        end.0 > layout::LOW_END
            && !layout::may_have_shadow(start.0, end.0)
            && !self.shadow.is_forbidden()
    }

    /// From now on nothing is translated as a paired call.
    pub(crate) fn forbid_pairs(&mut self) {
        self.shadow.forbid();
        self.pairs = false;
    }

    /// Whether the branch table has slots for any address in a range.
    #[must_use]
    pub fn has_slots(&self, start: u64, end: u64) -> bool {
        self.table.has_slots(start, end)
    }

    /// The cache address to enter for the guest to go on at `pc`; it counts no tick.
    ///
    /// # Errors
    /// There is no code at `pc`, or no room for its translation.
    pub fn entry(&mut self, code: &dyn Code, pc: GuestAddr) -> Result<u64, Bad> {
        let id = self.fragment(code, pc.0, Entry::Plain)?;
        self.exits.cache.settle()?;
        Ok(u64::from(self.frags.get(id).plain()))
    }

    /// The cache address to enter to execute the one instruction at `pc` and then stop with
    /// [`crate::Stop::Stepped`], or as that instruction does anyway. If it is a tick site its tick
    /// is counted, and [`crate::Stop::Budget`] takes precedence.
    ///
    /// # Errors
    /// As [`Translator::entry`].
    pub fn step_entry(&mut self, code: &dyn Code, pc: GuestAddr) -> Result<u64, Bad> {
        let id = match self.frags.find_step(pc.0) {
            Some(id) => id,
            None => self.translate(code, pc.0, Entry::Plain, true)?,
        };
        self.exits.cache.settle()?;
        Ok(u64::from(self.frags.get(id).plain()))
    }

    /// Guest bytes in `start..end` have changed, or are no longer executable: forgets the fragments
    /// that depend on them. Threads in such code leave it at its next exit.
    ///
    /// # Errors
    /// The kernel refuses a change of the cache; the translator is of no use then.
    pub fn invalidate(&mut self, start: GuestAddr, end: GuestAddr) -> Result<(), Error> {
        self.forget_code(start.0, end.0);
        self.forced.check()
    }

    /// Takes the fragments that depend on a range out of use.
    pub(crate) fn forget_code(&mut self, start: u64, end: u64) {
        self.neighbours.forget(start, end);
        for id in self.frags.overlapping(start, end) {
            self.kill(id);
            self.stats.invalidated += 1;
        }
    }

    /// Forgets everything. No thread may be in the cache.
    ///
    /// # Errors
    /// The kernel refuses to map the branch table anew; the translator is of no use then.
    pub fn flush(&mut self) -> Result<(), Error> {
        new_epoch();
        self.exits.cache.clear();
        self.exits.all.clear();
        self.exits.ops.clear();
        self.frags.clear();
        self.neighbours = Neighbours::default();
        self.units.clear();
        self.stats.flushes += 1;
        self.hashed.clear()?;
        self.shadow.clear();
        self.paired = false;
        self.table.clear()
    }

    /// Sets the instructions that stop with [`crate::Stop::Breakpoint`] before they are executed.
    /// Ticks and positions stay as they are: only the borders of fragments move. No thread may be
    /// in the cache.
    ///
    /// # Errors
    /// As [`Translator::invalidate`].
    pub fn set_breakpoints(&mut self, wanted: BTreeSet<u64>) -> Result<(), Error> {
        let changed: Vec<u64> = self
            .breakpoints
            .symmetric_difference(&wanted)
            .copied()
            .collect();
        self.breakpoints = wanted;
        for pc in changed {
            self.forget_code(pc, pc.wrapping_add(1));
        }
        self.forced.check()
    }

    /// Sets the memory with accesses that stop with [`crate::Stop::Watch`] before they happen.
    /// Accesses to neighbouring memory may stop as well: [`crate::accesses`] tells. Translations
    /// with other checks are forgotten; no thread may be in the cache.
    ///
    /// # Errors
    /// As [`Translator::flush`].
    pub fn set_watched(&mut self, wanted: &[Watched]) -> Result<(), Error> {
        if self.passes.watch.set(wanted)? {
            self.flush()?;
        }
        Ok(())
    }

    /// Sets whether accesses to memory are tracked ([`relive_host::track`], which must have been
    /// installed). Other translations are forgotten; no thread may be in the cache.
    ///
    /// # Errors
    /// As [`Translator::flush`].
    pub fn set_tracked(&mut self, on: bool) -> Result<(), Error> {
        if self.passes.track.set(on) {
            self.flush()?;
        }
        Ok(())
    }

    /// Switches the looks at permissions ([`relive_host::permissions`]) before accesses to memory. Each thread that enters
    /// the cache has a table then. No thread may be in the cache.
    ///
    /// # Errors
    /// As [`Translator::flush`].
    pub fn set_permissions(&mut self, on: bool) -> Result<(), Error> {
        if self.passes.permit.set(on) {
            self.flush()?;
        }
        Ok(())
    }

    /// Whether a translation depends on any byte of `start..end`.
    #[must_use]
    pub fn has_code(&self, start: GuestAddr, end: GuestAddr) -> bool {
        self.frags.any(start.0, end.0)
    }

    /// The key under which translations of a program are kept: valid only for this very build of
    /// the translator with the same options and passes.
    #[must_use]
    pub fn key(&self, program: &[u8]) -> u128 {
        let passes = self.passes.key().unwrap_or_default();
        xxh3_128(&[&self.build, &passes[..], program].concat())
    }

    /// Whether the instruction at `pc` is an ordered one: see [`crate::Ordered`].
    #[must_use]
    pub fn is_ordered_at(&mut self, code: &dyn Code, pc: GuestAddr) -> bool {
        let mut insn = Insn::new();
        let decoded = insn.decode(&mut Window::new(code), pc.0);
        matches!(decoded, Decoded::Insn)
            && self.passes.is_ordered(code, &insn, &mut self.neighbours)
    }

    /// The key by which the instruction at `pc` is a site ([`crate::Sites`]); `None` if it can be none.
    #[must_use]
    pub fn site_at(code: &dyn Code, pc: GuestAddr) -> Option<u64> {
        sites::key_at(code, pc)
    }

    /// The counts so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        *self.stats
    }

    /// From now on counts in `at`, on top of the values there.
    ///
    /// # Safety
    /// The memory stays valid while the translator lives, and no other code of this or another
    /// process writes it.
    pub unsafe fn count_in(&mut self, at: NonNull<Stats>) {
        // SAFETY: promised by the caller.
        self.stats = unsafe { Counters::elsewhere(at) };
    }

    /// The descriptor of this executable's file, which the translator keeps open.
    #[must_use]
    pub fn fd(&self) -> i32 {
        self.table.fd()
    }

    /// All descriptors that the translator keeps open; their numbers never change.
    pub fn descriptors(&self) -> impl Iterator<Item = i32> + use<> {
        [Some(self.table.fd()), self.forced.fd()]
            .into_iter()
            .flatten()
    }

    /// The process is about to be forked. No other thread may be translating.
    pub fn about_to_fork(&mut self) {
        if self.exits.cache.is_anew() {
            self.close_unit();
        }
        self.exits.cache.close();
    }

    /// The table of descriptors becomes that of a child with memory of its own too: to be called before the fork, and in the
    /// child behind it.
    pub fn shares_descriptors(&mut self) {
        self.forced.give_up();
    }

    /// Another process begins, or ends, to run in this memory with descriptors of its own.
    pub fn lend(&mut self, begins: bool) {
        self.forced.lend(begins);
    }

    /// From now on `ask` provides the descriptor of the process's memory, here and in forks of this
    /// process.
    pub fn ask_for_memory(&mut self, ask: Ask) {
        self.forced.ask(ask);
    }

    /// The fragment for `pc`, translated with entry `kind` in line if there is none yet.
    pub(crate) fn fragment(&mut self, code: &dyn Code, pc: u64, kind: Entry) -> Result<u32, Bad> {
        match self.frags.find(pc) {
            Some(id) => Ok(id),
            None => self.translate(code, pc, kind, false),
        }
    }
}
