//! The first failure of a tree: later ones are its consequences.

use std::sync::atomic::Ordering;

use super::{Shm, TEXT};
use crate::failure::{Failure, FailureClass};

/// A failure is being written down.
const TELLING: u32 = u32::MAX;

impl Shm {
    /// Keeps the first failure of the tree.
    pub fn fail(&self, class: FailureClass, text: &str) {
        let h = self.header();
        if h.failed
            .compare_exchange(0, TELLING, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
        {
            let n = text.len().min(TEXT);
            for (slot, b) in h.text.iter().zip(&text.as_bytes()[..n]) {
                slot.store(*b, Ordering::Relaxed);
            }
            h.text_len.store(n as u32, Ordering::Relaxed);
            h.failed.store(class as u32, Ordering::Release);
        }
        self.wake_supervisor();
    }

    /// The first failure, if there was one.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        let h = self.header();
        let class = match h.failed.load(Ordering::Acquire) {
            0 | TELLING => return None,
            class => class,
        };
        // A replay that was taken over may write anything here.
        let n = (h.text_len.load(Ordering::Relaxed) as usize).min(TEXT);
        let bytes: Vec<u8> = h.text[..n]
            .iter()
            .map(|b| b.load(Ordering::Relaxed))
            .collect();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Some(Failure::of_parts(class, text))
    }
}
