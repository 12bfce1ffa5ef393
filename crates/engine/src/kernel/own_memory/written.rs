//! The memory of the program that a call has written through a descriptor, as its event has it.

use crate::kernel::operation::Outcome;
use crate::task::Task;

/// The memory that a call has written through a descriptor.
pub(super) struct Written {
    pub(super) at: u64,
    pub(super) len: u64,
}

impl Written {
    /// The range that the call has noted; output to a standard stream notes other data.
    pub(super) fn of(task: &Task, outcome: &Outcome<'_>) -> Option<Self> {
        let stream = outcome.told.map_or(task.log.stream, |a| a.stream);
        let extra = outcome.extra(task);
        let word = |i: usize| {
            let bytes = extra.get(8 * i..8 * i + 8);
            u64::from_le_bytes(bytes.and_then(|b| b.try_into().ok()).unwrap_or_default())
        };
        (stream == 0 && !extra.is_empty()).then(|| Self {
            at: word(0),
            len: word(1),
        })
    }

    pub(super) fn note(&self, extra: &mut Vec<u8>) {
        extra.extend([self.at, self.len].iter().flat_map(|w| w.to_le_bytes()));
    }
}
