//! A small pseudo-random generator of our own: SplitMix64 (Steele, Lea and Flood, "Fast
//! splittable pseudorandom number generators", 2014).
//!
//! A recording's schedule follows from its seed, so the sequence must never change with a
//! dependency's version. Tests take their random choices from it too. Every seed gives a full period; nothing here is a secret.

/// The generator: 2⁶⁴ states, each followed by another.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// The state that this seed stands for.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0. The bias is below `bound` / 2⁶⁴.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// True once in `n` times on average.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// One of these, of which there is at least one.
    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }

    /// A number from 2^`low` up to, but not including, 2^`high`: every octave equally
    /// likely, and within an octave every number.
    pub fn octaves(&mut self, low: u32, high: u32) -> u64 {
        let base = 1 << (u64::from(low) + self.below(u64::from(high - low)));
        base + self.below(base)
    }

    /// Extra instructions after a slice: none in a quarter of the cases, because a switch
    /// right at a tick needs no stepping; else few mostly, and now and then so many that
    /// the middle of long straight code is reached too.
    pub(crate) fn steps(&mut self) -> u32 {
        let high = if self.one_in(12) {
            crate::policy::STEPS_MAX.ilog2()
        } else {
            7
        };
        if self.one_in(4) {
            0
        } else {
            self.octaves(0, high) as u32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        // First outputs of the reference implementation for seed 1234567.
        let mut rng = Rng::new(1_234_567);
        let first = [(); 3].map(|()| rng.word());
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn ranges_are_met_at_both_ends() {
        let mut rng = Rng::new(1);
        let mut seen = [0u32; 3];
        for _ in 0..3000 {
            seen[rng.below(3) as usize] += 1;
        }
        assert!(
            seen.iter().all(|count| (800..1200).contains(count)),
            "{seen:?}"
        );
        let numbers: Vec<u64> = (0..3000).map(|_| rng.octaves(2, 5)).collect();
        assert_eq!(numbers.iter().min(), Some(&4));
        assert_eq!(numbers.iter().max(), Some(&31));
    }
}
