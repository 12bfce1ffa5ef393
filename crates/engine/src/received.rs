//! The last of the signals that end programs which the program's first process got, in the shared memory: whoever passes on its own must
//! not send it once more to a process that got it with its whole group.

use std::sync::atomic::{AtomicU64, Ordering};

use relive_host::ending_signal::{self, EndingSignal};

use crate::section::{Section, Shareable};

/// The last one.
#[repr(C)]
pub struct Received(AtomicU64);

/// That of a recording.
pub static RECEIVED: Section<Received> = Section::common();

// SAFETY: all of it is atomic, and zeros are a value.
unsafe impl Shareable for Received {}

impl Received {
    /// The process at hand is the program's first one, and notes here what it gets.
    pub fn begin(&'static self) {
        ending_signal::note_in(&self.0);
    }

    /// The last one that it got.
    pub fn last(&self) -> Option<EndingSignal> {
        EndingSignal::unpack(self.0.load(Ordering::Acquire))
    }
}
