//! The code cache. At its own addresses it can be read and executed, not written: a wild store of
//! the guest faults there, as natively.
//!
//! Fragments grow from its start upwards, exit stubs, which are rarely executed, from its
//! end downwards, but for a few bytes that a signal's handler may read behind code. Emitted code is
//! never changed but for the displacement of a linkable branch and the first byte of a dead entry,
//! until its unit is filled anew ([`crate::units`]).
//!
//! The free part is written through a second mapping of the same memory ([`crate::alias`]). The
//! code around it, from a file of kept translations or from before a fork, is private to the
//! process and has no second mapping; the few changes there are forced ([`crate::forced`]).

use std::ops::Range;

use relive_host::layout::CACHE_START;
use relive_host::{addr::PAGE, cpu, signal, window};

use crate::alias::Alias;
use crate::align;
use crate::cache_window::FIXED;
use crate::forced::{self, Forced};
use crate::stop::Error;

/// One-byte instruction that faults at itself in user mode (`hlt`): written over the
/// entries of dead fragments.
const DEAD: u8 = 0xf4;

const START: u32 = CACHE_START as u32;

/// Bytes at the end without code: [`signal::READ_AHEAD`].
pub(crate) const TAIL: u32 = signal::READ_AHEAD as u32;

/// The mapping and its two growing ends.
pub(crate) struct Cache {
    hot: u32,
    cold: u32,
    /// While a part is filled anew: the ends of it, and those of all that has ever been filled.
    anew: Option<Anew>,
    end: u32,
    /// The pages that only the alias's memory is mapped at, or will be.
    open: (u32, u32),
    /// The second mapping of the open pages; made when it is first needed.
    alias: Option<Alias>,
    forced: Forced,
    /// Code has been written since the last [`Cache::settle`].
    changed: bool,
}

#[derive(Clone, Copy)]
struct Anew {
    hot_end: u32,
    cold_start: u32,
    top: (u32, u32),
}

impl Cache {
    /// A cache in the first `bytes` of its window.
    pub(crate) fn new(bytes: u64, forced: Forced) -> Self {
        let end = START + bytes as u32;
        Self {
            hot: START + FIXED,
            cold: end - TAIL,
            anew: None,
            end,
            open: (START, end),
            alias: None,
            forced,
            changed: false,
        }
    }

    /// Forgets all contents.
    pub(crate) fn clear(&mut self) {
        self.hot = START + FIXED;
        self.cold = self.end - TAIL;
        self.anew = None;
        self.open = (START, self.end);
        self.alias = None;
    }

    /// Maps memory for the code to be emitted next, if that has not been done.
    ///
    /// # Errors
    /// The kernel refuses a map over the window reserved for the cache.
    pub(crate) fn prepare(&mut self) -> Result<(), Error> {
        if self.alias.is_none() {
            let (start, end) = self.open;
            self.alias = Some(Alias::new(start, end)?);
        }
        Ok(())
    }

    /// This process is about to be forked. Parent and child keep the pages as they are, and each
    /// maps memory of its own for later code: shared memory is not written any more. No part is
    /// being filled anew.
    pub(crate) fn close(&mut self) {
        assert!(self.anew.is_none(), "a part of the cache is filled anew");
        if self.alias.take().is_some() {
            self.close_around(self.hot, self.cold);
        }
    }

    /// The pages below the first address and from the second on are not the alias's.
    fn close_around(&mut self, hot: u32, cold: u32) {
        let page = PAGE as u32;
        self.hot = hot.next_multiple_of(page);
        self.cold = cold / page * page;
        if self.hot > self.cold {
            // One page was left, and holds code of both kinds.
            self.cold = self.hot;
        }
        self.open = (self.hot, self.cold);
        self.alias = None;
    }

    /// First free byte above the fragments, first byte of the stubs, end.
    pub(crate) fn bounds(&self) -> (u32, u32, u32) {
        let (hot, cold) = self.anew.map_or((self.hot, self.cold), |a| a.top);
        (hot, cold, self.end)
    }

    /// Where the next bytes go.
    pub(crate) fn ends(&self) -> (u32, u32) {
        (self.hot, self.cold)
    }

    /// From now on fills the part with these ends anew, of which nothing is in use.
    pub(crate) fn fill_anew(&mut self, hot: Range<u32>, cold: Range<u32>) {
        assert!(self.anew.is_none(), "two parts are filled anew");
        self.anew = Some(Anew {
            hot_end: hot.end,
            cold_start: cold.start,
            top: (self.hot, self.cold),
        });
        (self.hot, self.cold) = (hot.start, cold.end);
    }

    /// The end of that.
    pub(crate) fn end_anew(&mut self) {
        if let Some(anew) = self.anew.take() {
            (self.hot, self.cold) = anew.top;
        }
    }

    /// Whether a part is being filled anew.
    pub(crate) fn is_anew(&self) -> bool {
        self.anew.is_some()
    }

    /// Makes code that no thread is in or will enter fault everywhere.
    pub(crate) fn kill_all(&mut self, range: Range<u32>) {
        self.change(range.start, &vec![DEAD; range.len()]);
    }

    /// Takes over code that is already mapped.
    pub(crate) fn take_over(&mut self, hot: u32, cold: u32) {
        let is_inside = hot <= cold && cold <= self.end - TAIL;
        assert!(is_inside, "outside of the cache");
        self.close_around(hot, cold);
    }

    /// Whether `bytes` more fit.
    pub(crate) fn has_room(&self, bytes: u32) -> bool {
        match self.anew {
            None => self.cold - self.hot >= bytes,
            Some(a) => a.hot_end - self.hot >= bytes && self.cold - a.cold_start >= bytes,
        }
    }

    /// Start of the next fragment.
    pub(crate) fn next_hot(&self) -> u32 {
        align::start(self.hot, self.hot - CACHE_START as u32)
    }

    /// Puts a fragment at [`Cache::next_hot`].
    pub(crate) fn push_hot(&mut self, code: &[u8]) {
        let at = self.next_hot();
        self.hot = at + code.len() as u32;
        self.write(at, code);
    }

    /// Reserves `bytes` for a stub.
    pub(crate) fn reserve_cold(&mut self, bytes: u32) -> u32 {
        self.cold -= bytes;
        self.cold
    }

    /// Bytes in use: fragments, stubs.
    pub(crate) fn used(&self) -> (u32, u32) {
        (self.hot - CACHE_START as u32, self.end - self.cold)
    }

    /// Writes code that no thread is executing.
    pub(crate) fn write(&mut self, at: u32, code: &[u8]) {
        let over = match self.anew {
            None => self.hot > self.cold,
            Some(a) => self.hot > a.hot_end || self.cold < a.cold_start,
        };
        assert!(!over, "the code cache has run over");
        self.change(at, code);
    }

    /// Makes the branch whose displacement is at `site` go to `target`, for all threads at once.
    pub(crate) fn patch_branch(&mut self, site: u32, target: u32) {
        assert!(site % 64 <= 60, "not a link");
        // One store within a cache line: a thread that executes it sees the old or the new value.
        self.change(site, &target.wrapping_sub(site + 4).to_le_bytes());
    }

    /// Makes an entry fault from now on.
    pub(crate) fn kill_entry(&mut self, at: u32) {
        self.change(at, &[DEAD]);
    }

    fn change(&mut self, at: u32, bytes: &[u8]) {
        assert!(
            at >= START && at as usize + bytes.len() <= self.end as usize,
            "outside of the cache"
        );
        self.changed = true;
        // A unit may have begun before a fork and gone on behind it. One write over pages of both kinds would take those
        // of the alias's memory away from it: later code would go to memory that is not executed.
        let end = at + bytes.len() as u32;
        let (open, closed) = self.alias.as_ref().map_or((at, at), Alias::pages);
        let cuts = [at, open.clamp(at, end), closed.clamp(at, end), end];
        for cut in cuts.windows(2).filter(|cut| cut[0] < cut[1]) {
            let part = &bytes[(cut[0] - at) as usize..(cut[1] - at) as usize];
            self.change_alike(cut[0], part);
        }
    }

    /// The same on pages of one kind.
    fn change_alike(&mut self, at: u32, bytes: &[u8]) {
        let alias = self.alias.as_mut().and_then(|a| a.of(at, bytes.len()));
        // SAFETY: the range lies in our mapping, which no Rust object lives in, as asserted.
        unsafe {
            match alias {
                Some(at) => forced::store(at, bytes),
                None => self.forced.write(at.into(), bytes),
            }
        }
    }

    /// Lets this thread execute code written since the last time: it was written through another
    /// address (Intel's manual, volume 3, "Self-Modifying Code").
    ///
    /// # Errors
    /// Not all of it, or of the tables, could be written: no thread may execute it.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        if std::mem::take(&mut self.changed) {
            cpu::serialize();
        }
        self.forced.check()
    }

    /// A copy of emitted code.
    pub(crate) fn read(&self, at: u32, len: u32) -> Vec<u8> {
        assert!(
            u64::from(at) >= CACHE_START && at + len <= self.end,
            "outside of the cache"
        );
        // SAFETY: the range lies in our mapping; only this translator writes there.
        unsafe { std::slice::from_raw_parts(at as *const u8, len as usize) }.to_vec()
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        let len = u64::from(self.end) - CACHE_START;
        // SAFETY: the mapping is ours; the caller lets no thread run in it any more.
        unsafe { window::release(CACHE_START, len) };
    }
}
