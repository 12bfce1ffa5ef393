//! How many lines go from one thread to another with one that is asked for: those of a page, or, where parts of it go to and
//! fro, those of a part, or none. Must never be asked by two threads at once.

use relive_host::permissions::LINES;

/// Lines of a block: a page, and a part of one.
const SIZES: [usize; 2] = [LARGEST, 8];
/// The most lines of a block.
pub(super) const LARGEST: usize = 64;
/// So often in a moment the lines of a block go along with one, before only those of a smaller block do.
const TOGETHER: u64 = 4;
/// log2 of the cycles of such a moment.
const MOMENT: u32 = 21;
/// Digits of an entry that count.
const TIMES: u64 = 0xff;

/// For each block the last moment in which its lines went along with one, and how often.
pub(super) struct Blocks([Vec<u64>; SIZES.len()]);

impl Default for Blocks {
    fn default() -> Self {
        // Zeros that cost nothing until they are touched.
        Self(SIZES.map(|size| vec![0; LINES as usize / size]))
    }
}

impl Blocks {
    /// The size of the block of which all lines go along with `line` at a time in cycles; 1: none do.
    pub(super) fn go_along_with(&mut self, line: u32, now: u64) -> usize {
        let moment = now >> MOMENT << TIMES.count_ones();
        for (blocks, size) in self.0.iter_mut().zip(SIZES) {
            let block = &mut blocks[line as usize / size];
            if *block & !TIMES != moment {
                *block = moment;
            }
            if *block & TIMES < TOGETHER {
                *block += 1;
                return size;
            }
        }
        1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_go_to_and_fro_go_in_smaller_blocks_and_later_in_large_ones_again() {
        let mut blocks = Blocks::default();
        let (now, later) = (5 << MOMENT, 6 << MOMENT);
        let sizes: Vec<usize> = (0..9).map(|_| blocks.go_along_with(70, now)).collect();
        assert_eq!(sizes, [64, 64, 64, 64, 8, 8, 8, 8, 1]);
        assert_eq!(blocks.go_along_with(71, now), 1);
        assert_eq!(blocks.go_along_with(72, now), 8, "another part");
        assert_eq!(blocks.go_along_with(128, now), 64, "another page");
        assert_eq!(blocks.go_along_with(70, later), 64);
    }
}
