//! The answers of `cpuid`, asked once for all processes of a tree: a hypervisor takes microseconds
//! over each answer, and the dynamic loader of every program asks some fifty times.
//!
//! Lives in the shared memory, and where there is none in each process, which hands its answers on over exec: atomics
//! only; an entry must never be changed once it is whole. An answer that another processor of the machine would give
//! differently must never be held without the processor that gave it.

use std::arch::x86_64::{__cpuid_count, __rdtscp};
use std::sync::atomic::{AtomicU32, Ordering};

use serde::{Deserialize, Serialize};

use crate::section::{Section, Shareable};
use crate::shm;

const SLOTS: usize = 256;
/// The number of slots in which one leaf may be.
const REACH: usize = 8;
const EMPTY: u32 = 0;
const CLAIMED: u32 = 1;
const WHOLE: u32 = 2;

/// Leaves that differ among processors (Intel's manual, CPUID; AMD's, appendix E): APIC ids and
/// topology, core kinds, addresses that are cached, and the counters of a processor.
const OF_ONE_PROCESSOR: &[u32] = &[1, 0xb, 0x1a, 0x1b, 0x1f, 0x8000_001e, 0x8000_0026];

/// Stands for the processor where an answer is that of all.
const ANY: u32 = u32::MAX;

/// An open-addressing table from leaf, sub-leaf and processor to the four registers.
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
    processor: AtomicU32,
    words: [AtomicU32; 4],
}

const ONE_KIND: u32 = 1;
const SEVERAL_KINDS: u32 = 2;

/// The answers of the processor.
pub static ANSWERS: Section<Answers> = Section::new();

/// The answers where no memory is shared. Process-wide: a cache of the processor's answers, which are
/// those of the machine.
static OF_THIS_PROCESS: Answers = Answers::new();

/// An answer that goes on over exec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptAnswer {
    key: Question,
    words: [u32; 4],
}

/// Leaf, sub-leaf, and the processor that is asked, or [`ANY`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Question {
    leaf: u32,
    sub: u32,
    processor: u32,
}

/// eax, ebx, ecx and edx of the processor's answer.
pub fn ask(leaf: u32, sub: u32) -> [u32; 4] {
    let shared = shm::shared().map(|shm| ANSWERS.of(shm));
    shared.unwrap_or(&OF_THIS_PROCESS).ask(leaf, sub)
}

/// The answers that a process of this machine needs to be told; none where memory is shared.
pub fn kept() -> Vec<KeptAnswer> {
    match shm::shared() {
        Some(_) => Vec::new(),
        None => OF_THIS_PROCESS.kept(),
    }
}

/// Takes over the answers of another process on this machine.
pub fn adopt(answers: &[KeptAnswer]) {
    OF_THIS_PROCESS.adopt(answers);
}

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
            processor: ZERO,
            words: [ZERO; 4],
        };
        Self {
            mixed: ZERO,
            slots: [SLOT; SLOTS],
        }
    }

    /// eax, ebx, ecx and edx of the processor's answer.
    fn ask(&self, leaf: u32, sub: u32) -> [u32; 4] {
        let of_one = OF_ONE_PROCESSOR.contains(&leaf) || self.mixed();
        let processor = if of_one { this_processor() } else { ANY };
        self.look_up(Question {
            leaf,
            sub,
            processor,
        })
    }

    /// An answer of the table, which it is added to.
    fn look_up(&self, key: Question) -> [u32; 4] {
        let asked = || processor(key.leaf, key.sub);
        for slot in self.probe(key) {
            match slot.state.load(Ordering::Acquire) {
                WHOLE if slot.key() == key => return slot.words(),
                EMPTY => {
                    let words = asked();
                    // The thread may have moved to another processor meanwhile.
                    if key.processor == ANY || key.processor == this_processor() {
                        slot.fill(key, words);
                    }
                    return words;
                }
                _ => {}
            }
        }
        asked()
    }

    /// Whether any answer may depend on the processor: leaf 7, edx bit 15, which is the same on all.
    fn mixed(&self) -> bool {
        match self.mixed.load(Ordering::Relaxed) {
            0 => {
                let [highest, flags] = [0, 7].map(|leaf| {
                    self.look_up(Question {
                        leaf,
                        sub: 0,
                        processor: ANY,
                    })
                });
                let mixed = highest[0] >= 7 && flags[3] & 1 << 15 != 0;
                let found = if mixed { SEVERAL_KINDS } else { ONE_KIND };
                self.mixed.store(found, Ordering::Relaxed);
                mixed
            }
            found => found == SEVERAL_KINDS,
        }
    }

    /// The answers of the table.
    fn kept(&self) -> Vec<KeptAnswer> {
        let whole = |slot: &&CachedAnswer| slot.state.load(Ordering::Acquire) == WHOLE;
        let kept = |slot: &CachedAnswer| KeptAnswer {
            key: slot.key(),
            words: slot.words(),
        };
        self.slots.iter().filter(whole).map(kept).collect()
    }

    /// Adds answers to the table, as many as have room.
    fn adopt(&self, answers: &[KeptAnswer]) {
        for answer in answers {
            let mut slots = self.probe(answer.key);
            let free = slots.find(|slot| slot.state.load(Ordering::Acquire) == EMPTY);
            if let Some(slot) = free {
                slot.fill(answer.key, answer.words);
            }
        }
    }

    fn probe(&self, key: Question) -> impl Iterator<Item = &CachedAnswer> {
        let mixed = key.leaf ^ key.sub.rotate_left(16) ^ key.processor.rotate_left(24);
        let start = (mixed.wrapping_mul(0x9e37_79b1) >> 16) as usize;
        (0..REACH).map(move |i| &self.slots[(start + i) % SLOTS])
    }
}

impl CachedAnswer {
    fn key(&self) -> Question {
        Question {
            leaf: self.leaf.load(Ordering::Relaxed),
            sub: self.sub.load(Ordering::Relaxed),
            processor: self.processor.load(Ordering::Relaxed),
        }
    }

    fn words(&self) -> [u32; 4] {
        [0, 1, 2, 3].map(|i: usize| self.words[i].load(Ordering::Relaxed))
    }

    /// Keeps an answer, unless another process or thread has claimed the slot.
    fn fill(&self, key: Question, words: [u32; 4]) {
        let claimed =
            self.state
                .compare_exchange(EMPTY, CLAIMED, Ordering::AcqRel, Ordering::Relaxed);
        if claimed.is_err() {
            return;
        }
        self.leaf.store(key.leaf, Ordering::Relaxed);
        self.sub.store(key.sub, Ordering::Relaxed);
        self.processor.store(key.processor, Ordering::Relaxed);
        for (slot, word) in self.words.iter().zip(words) {
            slot.store(word, Ordering::Relaxed);
        }
        self.state.store(WHOLE, Ordering::Release);
    }
}

/// The number of the processor that the thread is on (12 bits) and that of its node: Linux keeps them in
/// `IA32_TSC_AUX`, which `rdpid` reads, too.
pub fn this_processor() -> u32 {
    let mut aux = 0;
    // SAFETY: reads the counter, and stores its second result through a valid pointer.
    unsafe { __rdtscp(&raw mut aux) };
    aux
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
    fn answers_go_on_over_exec() {
        let (old, new) = (Answers::new(), Answers::new());
        let asked = [(0xd, 0), (0x8000_0000, 0), (4, 1)].map(|(leaf, sub)| old.ask(leaf, sub));
        new.adopt(&old.kept());
        // Those three, and the two by which kinds of processors are told apart.
        assert_eq!((new.kept().len(), new.kept()), (5, old.kept()));
        let again = [(0xd, 0), (0x8000_0000, 0), (4, 1)].map(|(leaf, sub)| new.ask(leaf, sub));
        assert_eq!(asked, again);
        assert_eq!(new.kept().len(), 5);
    }

    #[test]
    fn an_answer_of_one_processor_is_kept_for_that_one() {
        let answers = Answers::new();
        for leaf in OF_ONE_PROCESSOR {
            let _ = answers.ask(*leaf, 0);
        }
        for KeptAnswer { key, .. } in answers.kept() {
            let of_one = OF_ONE_PROCESSOR.contains(&key.leaf);
            assert!(of_one != (key.processor == ANY), "{key:?}");
        }
        let key = Question {
            leaf: 1,
            sub: 0,
            processor: 77,
        };
        let of_77 = KeptAnswer {
            key,
            words: [1, 2, 3, 4],
        };
        answers.adopt(&[of_77]);
        assert_eq!(answers.look_up(key), [1, 2, 3, 4]);
        assert_ne!(answers.ask(1, 0), [1, 2, 3, 4]);
    }

    #[test]
    fn a_full_table_still_answers() {
        let answers = Answers::new();
        for sub in 0..2 * SLOTS as u32 {
            assert_eq!(answers.ask(4, sub), processor(4, sub));
        }
    }
}
