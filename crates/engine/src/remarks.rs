//! Remarks at the end of a recording on operations that programs could not do, each kind once: a program
//! gets an errno, and its own message about that would mislead the user. Kept in the shared memory, for
//! the supervisor to print.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use crate::section::{Section, Shareable};

const NAME: usize = 256;

/// The kinds of remarks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remark {
    /// A program for other processors, or for 32 bits, was to be executed.
    Foreign,
    /// A process was to be made that traces its parent.
    Tracer,
    /// Much memory was asked for at an address of the host's.
    FixedMemory,
}

impl Remark {
    const ALL: [Self; 3] = [Self::Foreign, Self::Tracer, Self::FixedMemory];

    fn sentence(self, name: &str) -> String {
        match self {
            Self::Foreign => format!(
                "{name} was not executed (ENOEXEC): only x86-64 programs and scripts can be recorded"
            ),
            Self::Tracer => format!(
                "{name} could not start a process that traces it: if it is LeakSanitizer, record without --mode sketch, or set ASAN_OPTIONS=detect_leaks=0"
            ),
            Self::FixedMemory => format!(
                "{name} wants much memory at an address that Relive cannot give: programs with ThreadSanitizer or MemorySanitizer cannot be recorded"
            ),
        }
    }
}

/// One place for each remark. State 0: empty, 1: being written, 2: whole.
#[derive(Default)]
struct RemarkPlace {
    state: AtomicU32,
    length: AtomicU32,
    name: [[AtomicU8; 32]; NAME / 32],
}

/// The remarks of the tree.
pub static REMARKS: Section<Remarks> = Section::new();

// SAFETY: all of it is atomic, and zeros are a value.
unsafe impl Shareable for Remarks {}

/// The remarks of a tree of processes, in shared memory: zeros are none.
#[derive(Default)]
pub struct Remarks([RemarkPlace; Remark::ALL.len()]);

impl Remarks {
    /// Keeps the first remark of its kind.
    pub fn note(&self, remark: Remark, name: &[u8]) {
        let place = &self.0[remark as usize];
        let first = place
            .state
            .compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
        if first.is_err() {
            return;
        }
        for (slot, byte) in place.name.as_flattened().iter().zip(name) {
            slot.store(*byte, Ordering::Relaxed);
        }
        let length = name.len().min(NAME) as u32;
        place.length.store(length, Ordering::Relaxed);
        place.state.store(2, Ordering::Release);
    }

    /// All of them, as sentences.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let there = |remark: &&Remark| self.0[**remark as usize].state.load(Ordering::Acquire) == 2;
        let sentence = |remark: &Remark| {
            let place = &self.0[*remark as usize];
            let length = place.length.load(Ordering::Relaxed) as usize;
            let name = place.name.as_flattened().iter().take(length);
            let name: Vec<u8> = name.map(|byte| byte.load(Ordering::Relaxed)).collect();
            remark.sentence(&String::from_utf8_lossy(&name))
        };
        Remark::ALL.iter().filter(there).map(sentence).collect()
    }
}

/// Notes a remark on this recording; `name` is the program's.
pub fn note(remark: Remark, name: &[u8]) {
    if let Some(shm) = crate::shm::shared() {
        REMARKS.of(shm).note(remark, name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_is_remarked_once() {
        let remarks = Remarks::default();
        assert!(remarks.sentences().is_empty());
        remarks.note(Remark::Tracer, b"one");
        remarks.note(Remark::Tracer, b"two");
        remarks.note(Remark::Foreign, &[b'x'; 1000]);
        let sentences = remarks.sentences();
        assert_eq!(sentences.len(), 2);
        assert!(sentences[0].starts_with(&"x".repeat(NAME)) && sentences[0].len() < 1000);
        assert!(
            sentences[1].starts_with("one could not start"),
            "{sentences:?}"
        );
    }
}
