//! Each thread in turn, the same slice for all: for tests that need a known schedule.

use crate::policy::{Policy, SLICE_MAX};

/// Hands the baton to the thread that waits longest.
#[derive(Debug, Clone)]
pub struct RoundRobin {
    slice: u64,
}

impl RoundRobin {
    /// With slices of this many ticks, brought into the range that policies keep to.
    pub fn new(slice: u64) -> Self {
        Self {
            slice: slice.clamp(1, SLICE_MAX),
        }
    }
}

impl Policy for RoundRobin {
    fn slice(&mut self, _alone: bool) -> u64 {
        self.slice
    }

    fn steps(&mut self) -> u32 {
        0
    }

    fn choose(&mut self, waiting: &[u32]) -> usize {
        assert!(!waiting.is_empty(), "there is nobody to choose");
        0
    }
}
