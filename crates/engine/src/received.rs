//! The last signals that the program's first process got, in the shared memory: whoever passes on its own must
//! not send it once more to a process that got it with its whole group.

use std::sync::atomic::Ordering;

use relive_host::sent_signal::{self, SentSignal, Words};

use crate::section::{Section, Shareable};

/// The last one of each number.
#[repr(C)]
pub struct Received(Words);

/// That of a recording.
pub static RECEIVED: Section<Received> = Section::common();

// SAFETY: all of it is atomic, and zeros are a value.
unsafe impl Shareable for Received {}

impl Received {
    /// The process at hand is the program's first one, and notes here what it gets.
    pub fn begin(&'static self) {
        sent_signal::note_in(&self.0);
    }

    /// The last one with this number that it got.
    pub fn last(&self, signal: i32) -> Option<SentSignal> {
        let word = self.0.get(signal as usize)?;
        SentSignal::unpack(word.load(Ordering::Acquire))
    }
}
