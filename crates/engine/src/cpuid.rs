//! The answers of `cpuid`, asked once for all processes of a tree: a hypervisor takes microseconds
//! over each answer, and the dynamic loader of every program asks some fifty times.
//!
//! Lives in the shared memory: atomics only; an entry must never be changed once it is whole. It
//! must never hold an answer that another processor of the machine would give differently.

use std::arch::x86_64::__cpuid_count;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::section::{Section, Shareable};

const SLOTS: usize = 256;
/// The number of slots in which one leaf may be.
const REACH: usize = 8;
const EMPTY: u32 = 0;
const CLAIMED: u32 = 1;
const WHOLE: u32 = 2;

/// Leaves that differ among processors (Intel's manual, CPUID; AMD's, appendix E): APIC ids and
/// topology, core kinds, addresses that are cached, and the counters of a processor.
const OF_ONE_PROCESSOR: &[u32] = &[1, 0xb, 0x1a, 0x1b, 0x1f, 0x8000_001e, 0x8000_0026];

/// An open-addressing table from leaf and sub-leaf to the four registers.
#[repr(C)]
pub struct Answers {
    /// Whether the machine has processors of several kinds; 0: not asked yet.
    mixed: AtomicU32,
    slots: [CachedAnswer; SLOTS],
}

#[repr(C)]
struct CachedAnswer {
    state: AtomicU32,
    leaf: AtomicU32,
    sub: AtomicU32,
    words: [AtomicU32; 4],
}

const ONE_KIND: u32 = 1;
const SEVERAL_KINDS: u32 = 2;

/// The answers of the processor.
pub static ANSWERS: Section<Answers> = Section::new();

// SAFETY: all of it is atomic, and zeros are a value.
unsafe impl Shareable for Answers {}

impl Answers {
    /// No answers.
    #[expect(
        clippy::declare_interior_mutable_const,
        reason = "the value that fills an array"
    )]
    pub const fn new() -> Self {
        const ZERO: AtomicU32 = AtomicU32::new(0);
        const SLOT: CachedAnswer = CachedAnswer {
            state: ZERO,
            leaf: ZERO,
            sub: ZERO,
            words: [ZERO; 4],
        };
        Self {
            mixed: ZERO,
            slots: [SLOT; SLOTS],
        }
    }

    /// eax, ebx, ecx and edx of the processor's answer.
    pub fn ask(&self, leaf: u32, sub: u32) -> [u32; 4] {
        if OF_ONE_PROCESSOR.contains(&leaf) || self.mixed() {
            return processor(leaf, sub);
        }
        for slot in self.probe(leaf, sub) {
            match slot.state.load(Ordering::Acquire) {
                WHOLE if slot.is(leaf, sub) => return slot.words(),
                EMPTY => {
                    let words = processor(leaf, sub);
                    slot.fill(leaf, sub, words);
                    return words;
                }
                _ => {}
            }
        }
        processor(leaf, sub)
    }

    /// Whether any answer may depend on the processor: leaf 7, edx bit 15.
    fn mixed(&self) -> bool {
        match self.mixed.load(Ordering::Relaxed) {
            0 => {
                let mixed = processor(0, 0)[0] >= 7 && processor(7, 0)[3] & 1 << 15 != 0;
                let found = if mixed { SEVERAL_KINDS } else { ONE_KIND };
                self.mixed.store(found, Ordering::Relaxed);
                mixed
            }
            found => found == SEVERAL_KINDS,
        }
    }

    fn probe(&self, leaf: u32, sub: u32) -> impl Iterator<Item = &CachedAnswer> {
        let mixed = (leaf ^ sub.rotate_left(16)).wrapping_mul(0x9e37_79b1);
        let start = (mixed >> 16) as usize;
        (0..REACH).map(move |i| &self.slots[(start + i) % SLOTS])
    }
}

impl CachedAnswer {
    fn is(&self, leaf: u32, sub: u32) -> bool {
        self.leaf.load(Ordering::Relaxed) == leaf && self.sub.load(Ordering::Relaxed) == sub
    }

    fn words(&self) -> [u32; 4] {
        [0, 1, 2, 3].map(|i: usize| self.words[i].load(Ordering::Relaxed))
    }

    /// Keeps an answer, unless another process or thread has claimed the slot.
    fn fill(&self, leaf: u32, sub: u32, words: [u32; 4]) {
        let claimed =
            self.state
                .compare_exchange(EMPTY, CLAIMED, Ordering::AcqRel, Ordering::Relaxed);
        if claimed.is_err() {
            return;
        }
        self.leaf.store(leaf, Ordering::Relaxed);
        self.sub.store(sub, Ordering::Relaxed);
        for (slot, word) in self.words.iter().zip(words) {
            slot.store(word, Ordering::Relaxed);
        }
        self.state.store(WHOLE, Ordering::Release);
    }
}

fn processor(leaf: u32, sub: u32) -> [u32; 4] {
    let r = __cpuid_count(leaf, sub);
    [r.eax, r.ebx, r.ecx, r.edx]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_answer_is_the_processors() {
        let answers = Answers::new();
        for _ in 0..2 {
            for (leaf, sub) in [(0, 0), (7, 0), (7, 1), (0xd, 0), (0xd, 2), (0x8000_0000, 0)] {
                assert_eq!(
                    answers.ask(leaf, sub),
                    processor(leaf, sub),
                    "{leaf:x}.{sub}"
                );
            }
        }
    }

    #[test]
    fn what_belongs_to_one_processor_is_not_kept() {
        let answers = Answers::new();
        for leaf in OF_ONE_PROCESSOR {
            let _ = answers.ask(*leaf, 0);
        }
        let used = |s: &CachedAnswer| s.state.load(Ordering::Relaxed) != EMPTY;
        assert!(!answers.slots.iter().any(used));
    }

    #[test]
    fn a_full_table_still_answers() {
        let answers = Answers::new();
        for sub in 0..2 * SLOTS as u32 {
            assert_eq!(answers.ask(4, sub), processor(4, sub));
        }
    }
}
