//! What copies of a flight recording say: of themselves when they are made, and their images when they are wanted. Must never
//! keep a word of one that did not come as a whole.

use std::collections::BTreeSet;
use std::time::Instant;

use super::cut_choice::SleepingCopy;
use super::{Flight, IncomingImage};
use crate::failure::Failure;
use crate::file_copies;
use crate::image_stream::Prologue;

impl Flight {
    /// Bytes of an image, or of what a copy says of itself. Of an image that cannot be written nothing is kept.
    pub fn take(&mut self, ring: u32, bytes: &[u8]) {
        let keeps = self.keeps;
        let fresh = || (keeps, IncomingImage::default());
        let (number, image) = self.incoming.entry(ring).or_insert_with(fresh);
        let keeping = self.keeping.as_mut().filter(|_| *number == keeps);
        let taken = image.take(bytes, keeping.map(|keeping| &mut keeping.index));
        if let Err(failure) = taken {
            self.give_up(failure);
        }
    }

    /// No more comes in a ring.
    pub fn ring_ended(&mut self, ring: u32) {
        let Some((number, image)) = self.incoming.remove(&ring) else {
            return;
        };
        let is_kept = number == self.keeps;
        if let Some(text) = image.failure().filter(|_| is_kept) {
            self.give_up(Failure::setup(format!(
                "a process could not be described: {text}"
            )));
        }
        match image.finish() {
            Some((prologue, None)) => self.is_asleep(&prologue),
            Some((prologue, Some(image))) if is_kept => {
                let come = self.keeping.as_mut();
                match come.map_or(Ok(()), |keeping| keeping.has_come(prologue, image)) {
                    Ok(()) => self.finish_keeping(),
                    Err(failure) => self.give_up(failure),
                }
            }
            Some(_) | None => {}
        }
    }

    fn is_asleep(&mut self, prologue: &Prologue) {
        let Some(place) = prologue.sleeps else {
            return;
        };
        let begins = prologue.state.begins();
        let marks = prologue.state.marks();
        // One that was on its way when the tapes began to go elsewhere is of no use.
        let here = self.onward.is_none() && self.store.tapes.begin_by(&marks);
        if !here {
            self.end([place]);
        } else if self.checkpoints().copy_lives(place) {
            let mut named = BTreeSet::new();
            file_copies::of_state(&prologue.state, &mut named);
            let copy = SleepingCopy {
                place,
                taken: Instant::now(),
                work: begins.work,
                tree: prologue.tree,
                threads: begins.threads,
                marks,
                files: named,
                apart: 0,
            };
            // One of those with which a recording begins that is being kept is needed.
            let all = self.keeping.is_some();
            let left = self.store.tree.add_copy(begins.process, copy, all);
            self.end(left);
        }
    }
}
