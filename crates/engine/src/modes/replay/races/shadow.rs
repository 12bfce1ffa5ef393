//! The shadow of guest memory: for each word of 8 bytes, a cell with the accesses that a later one may race
//! with. The shadow must never touch guest memory.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::clock::VectorClock;
use super::shadow_cell::{Made, ShadowCell};

/// Bytes of a word, which has one cell.
pub const WORD: u64 = 8;
/// Bytes of guest memory with cells in one block.
const BLOCK: u64 = 1 << 10;
const CELLS: usize = (BLOCK / WORD) as usize;

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
