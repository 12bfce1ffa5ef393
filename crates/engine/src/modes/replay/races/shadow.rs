//! The shadow of guest memory: for each word of 8 bytes, the accesses that a later one may race with.
//!
//! A cell keeps no access behind which another one of the cell is ordered, if every race with the
//! former is one with the latter too. So most cells have one or two. Bytes are told apart by a mask:
//! neighbours in a word never race. The shadow must never touch guest memory.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use relive_host::track::lines::Slot;

use super::clock::VectorClock;

/// Bytes of a word, which has one cell.
pub const WORD: u64 = 8;
/// Bytes of guest memory with cells in one block.
const BLOCK: u64 = 1 << 10;
const CELLS: usize = (BLOCK / WORD) as usize;

/// An access that was made: at time 0 none.
pub type Made = Slot;

/// The relations between accesses.
trait HappensBefore: Sized {
    fn is_none(&self) -> bool;
    fn is_before(&self, now: &VectorClock) -> bool;
    fn is_by(&self, other: &Self) -> bool;
    fn is_like(&self, other: &Self) -> bool;
    fn meet(&mut self, new: &Self, now: &VectorClock, race: &mut dyn FnMut(Self)) -> bool;
    fn is_covered(&self, other: &Self) -> bool;
}

impl HappensBefore for Made {
    fn is_none(&self) -> bool {
        self.time == 0
    }

    /// Whether it is ordered before an access that a thread with this clock makes now.
    fn is_before(&self, now: &VectorClock) -> bool {
        self.time <= now.of(self.thread.into())
    }

    /// Whether it is of the same thread at the same time.
    fn is_by(&self, other: &Self) -> bool {
        self.thread == other.thread && self.time == other.time
    }

    /// Whether it differs in time and position alone.
    fn is_like(&self, other: &Self) -> bool {
        self.thread == other.thread && self.mask == other.mask && self.writes == other.writes
    }

    /// A later access comes: reports a race, or goes if it is not needed any more. Whether the later
    /// one is needed beside it.
    #[inline]
    fn meet(&mut self, new: &Self, now: &VectorClock, race: &mut dyn FnMut(Self)) -> bool {
        if self.is_none() {
            return true;
        }
        if self.is_by(new) {
            if new.is_covered(self) {
                return false;
            }
        } else if !self.is_before(now) {
            if self.mask & new.mask != 0 && self.writes | new.writes != 0 {
                race(*self);
            }
            return true;
        }
        if self.is_covered(new) {
            *self = Self::default();
        }
        true
    }

    /// Whether each later access that races with this one races with `other` too, which comes
    /// behind it.
    fn is_covered(&self, other: &Self) -> bool {
        self.mask & !other.mask == 0 && self.writes <= other.writes
    }
}

/// Of two accesses that race with a third one, the one to report. An access that another one
/// covers, which comes behind it, is never preferred to that: so it makes no difference whether it
/// has been dropped already.
pub fn preferred(a: Made, b: Made) -> Made {
    let bytes = |made: &Made| made.mask.count_ones();
    let key = |made: &Made| match a.thread == b.thread {
        true => (made.writes, u64::from(made.time), u64::from(bytes(made))),
        false => (made.writes, made.event, made.tick),
    };
    if key(&b) > key(&a) { b } else { a }
}

/// The cell of one word.
///
/// It may hold accesses that are not needed any more: where a line renews a slot, nothing else of the
/// cell is looked at ([`relive_host::track::lines`]).
#[derive(Default)]
struct ShadowCell {
    made: [Made; 2],
    /// Accesses that do not fit. None is taken out: a line may lead to its slot.
    more: Vec<Made>,
    /// Bytes that threads synchronise by.
    sync: u8,
}

impl ShadowCell {
    /// Adds an access; reports those that it races with. Whether slots have moved.
    fn add(&mut self, new: Made, now: &VectorClock, race: &mut dyn FnMut(Made)) -> bool {
        let mut is_needed = true;
        for old in self.made.iter_mut().chain(&mut self.more) {
            is_needed &= old.meet(&new, now, race);
        }
        if is_needed {
            return self.put(new);
        }
        let is_there = self.slot(&new).is_some();
        match self.made.iter_mut().find(|made| made.is_none()) {
            // A slot that a line can renew.
            Some(free) if !is_there => *free = new,
            _ => {}
        }
        false
    }

    fn all(&mut self) -> impl Iterator<Item = &mut Made> {
        self.made.iter_mut().chain(&mut self.more)
    }

    /// The slot of an access like this one.
    fn slot(&mut self, new: &Made) -> Option<&mut Made> {
        self.all().find(|made| made.is_like(new))
    }

    /// Puts in an access that is needed. Where there is no room, accesses of one thread to neighbouring
    /// bytes become one, with the later position. Whether slots have moved.
    fn put(&mut self, new: Made) -> bool {
        if let Some(free) = self.all().find(|made| made.is_none()) {
            *free = new;
            return false;
        }
        let alike = |old: &Made| old.is_by(&new) && old.writes == new.writes;
        if let Some(old) = self.all().find(|old| alike(old)) {
            *old = Made {
                mask: old.mask | new.mask,
                ..new
            };
            return false;
        }
        let moves = self.more.len() == self.more.capacity();
        self.more.push(new);
        moves
    }

    /// Forgets the accesses to these bytes.
    fn forget(&mut self, mask: u8) {
        let cut = |made: &mut Made| {
            made.mask &= !mask;
            if made.mask == 0 {
                *made = Made::default();
            }
        };
        self.all().for_each(cut);
    }

    fn is_empty(&mut self) -> bool {
        self.all().all(|made| made.is_none())
    }
}

/// Hashes numbers of blocks, which a program chooses itself: it can make its own search slow.
#[derive(Default)]
pub struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn write_isize(&mut self, n: isize) {
        self.write_u64(n as u64);
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0 ^ n)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29);
    }
}

/// A map with this hash.
pub type Mixed<K, T> = HashMap<K, T, BuildHasherDefault<Mix>>;
/// A map of numbers.
pub type Numbers<T> = Mixed<u64, T>;

/// The part of an access that lies in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Address of the word.
    pub word: u64,
    /// Bytes of it.
    pub mask: u8,
}

/// The parts of an access.
pub fn parts(addr: u64, size: u64) -> impl Iterator<Item = Part> {
    let end = addr.saturating_add(size);
    let first = addr / WORD * WORD;
    let bits = |n: u64| if n >= WORD { 0xff } else { (1u8 << n) - 1 };
    (first..end).step_by(WORD as usize).map(move |word| Part {
        word,
        mask: bits(end - word) & !bits(addr.saturating_sub(word)),
    })
}

/// The shadow of a process's memory.
pub struct Shadow {
    /// Where the blocks are.
    places: Numbers<usize>,
    blocks: Vec<Box<[ShadowCell; CELLS]>>,
    free: Vec<usize>,
    /// The block that was looked for last, and where it is: accesses stay in one for a while.
    last: (u64, usize),
}

/// A block that no address has.
const NOWHERE: u64 = u64::MAX;

impl Default for Shadow {
    fn default() -> Self {
        Self {
            places: Numbers::default(),
            blocks: Vec::new(),
            free: Vec::new(),
            last: (NOWHERE, 0),
        }
    }
}

impl Shadow {
    #[inline]
    fn cell(&mut self, word: u64) -> &mut ShadowCell {
        let block = word / BLOCK;
        if self.last.0 != block {
            self.last = (block, self.place(block));
        }
        &mut self.blocks[self.last.1][(word % BLOCK / WORD) as usize]
    }

    fn place(&mut self, block: u64) -> usize {
        if let Some(place) = self.places.get(&block) {
            return *place;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            let cells = std::array::from_fn(|_| ShadowCell::default());
            self.blocks.push(Box::new(cells));
            self.blocks.len() - 1
        });
        self.places.insert(block, place);
        place
    }

    /// Forgets a block.
    fn forget(&mut self, block: u64) {
        if let Some(place) = self.places.remove(&block) {
            self.blocks[place].fill_with(ShadowCell::default);
            self.free.push(place);
        }
    }

    /// Bytes of a word that threads synchronise by.
    #[inline]
    pub fn sync(&mut self, word: u64) -> u8 {
        self.cell(word).sync
    }

    /// Adds an access to a word, of the bytes that threads do not synchronise by; reports those that it
    /// races with. Whether slots of the cell have moved.
    #[inline]
    pub fn add(
        &mut self,
        word: u64,
        new: Made,
        now: &VectorClock,
        race: &mut dyn FnMut(Made),
    ) -> bool {
        let cell = self.cell(word);
        let mask = new.mask & !cell.sync;
        mask != 0 && cell.add(Made { mask, ..new }, now, race)
    }

    /// The slot of an access of one word that has been added, if it is as it was made: it stays there
    /// until slots move, or the memory of the word is other memory.
    pub fn slot(&mut self, word: u64, new: &Made) -> Option<&mut Made> {
        self.cell(word).slot(new)
    }

    /// From now on threads synchronise by these bytes. Whether there were plain accesses.
    pub fn synchronises(&mut self, part: Part) -> bool {
        let cell = self.cell(part.word);
        if cell.sync & part.mask == part.mask {
            return false;
        }
        cell.sync |= part.mask;
        let was = !cell.is_empty();
        cell.forget(part.mask);
        was
    }

    /// Other memory is there from now on.
    pub fn renew(&mut self, start: u64, end: u64) {
        if end <= start {
            return;
        }
        self.last.0 = NOWHERE;
        let (first, last) = (start.div_ceil(BLOCK), end / BLOCK);
        let inside = |block: u64| (first..last).contains(&block);
        let gone: Vec<u64> = match last.saturating_sub(first) > self.places.len() as u64 {
            true => self.places.keys().copied().filter(|n| inside(*n)).collect(),
            false => (first..last).collect(),
        };
        for block in gone {
            self.forget(block);
        }
        for block in [start / BLOCK, end / BLOCK] {
            let Some(place) = self.places.get(&block) else {
                continue;
            };
            for (i, cell) in self.blocks[*place].iter_mut().enumerate() {
                if (start..end).contains(&(block * BLOCK + i as u64 * WORD)) {
                    *cell = ShadowCell::default();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(thread: u16, time: u32, mask: u8, writes: bool) -> Made {
        Made {
            time,
            thread,
            mask,
            writes: writes.into(),
            ..Made::default()
        }
    }

    fn clock(times: &[u32]) -> VectorClock {
        let mut clock = VectorClock::default();
        for (thread, times) in times.iter().enumerate() {
            (0..*times).for_each(|_| clock.advance(thread));
        }
        clock
    }

    fn races(shadow: &mut Shadow, new: Made, now: &VectorClock) -> Vec<Made> {
        let mut found = Vec::new();
        shadow.add(64, new, now, &mut |old| found.push(old));
        found
    }

    #[test]
    fn only_what_nothing_orders_races() {
        let mut shadow = Shadow::default();
        let (first, reader) = (made(0, 1, 0xff, true), made(1, 1, 0x0f, false));
        assert!(races(&mut shadow, first, &clock(&[1])).is_empty());
        assert_eq!(races(&mut shadow, reader, &clock(&[0, 1])), [first]);
        // Ordered behind both.
        let third = made(2, 1, 0xff, true);
        assert!(races(&mut shadow, third, &clock(&[1, 1, 1])).is_empty());
        // Behind the first only, which is forgotten.
        let fourth = made(3, 1, 1, false);
        assert_eq!(races(&mut shadow, fourth, &clock(&[1, 0, 0, 1])), [third]);
    }

    #[test]
    fn neighbours_and_readers_do_not_race() {
        let mut shadow = Shadow::default();
        for thread in 0..8 {
            let now = clock(&[vec![0; thread.into()], vec![1]].concat());
            let mine = made(thread, 1, 1 << thread, true);
            assert!(races(&mut shadow, mine, &now).is_empty());
        }
        shadow.renew(64, 72);
        for thread in 0..8 {
            let now = clock(&[vec![0; thread.into()], vec![1]].concat());
            assert!(races(&mut shadow, made(thread, 1, 0xff, false), &now).is_empty());
        }
        assert_eq!(
            races(&mut shadow, made(9, 1, 1, true), &clock(&[])).len(),
            8
        );
    }

    #[test]
    fn an_access_has_a_part_in_each_word() {
        let all: Vec<(u64, u8)> = parts(6, 11).map(|p| (p.word, p.mask)).collect();
        assert_eq!(all, [(0, 0xc0), (8, 0xff), (16, 0x01)]);
    }
}
