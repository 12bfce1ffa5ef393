//! The trap flag of a guest that steps itself: `popf` and a return from a signal set it, and
//! behind each instruction from then on there is a SIGTRAP. The processor's own flag must never be
//! set: it would trap in the host's code. The thread executes one instruction at a time instead.

use serde::{Deserialize, Serialize};

/// The flag in `rflags`.
pub const TF: u64 = 1 << 8;

/// The state of a thread's trap flag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum TrapFlag {
    /// It is clear.
    #[default]
    Off,
    /// It is set: the next instruction traps.
    On,
    /// The engine has executed an instruction under it: the trap comes before anything else.
    Due,
}

impl TrapFlag {
    /// From `rflags`.
    #[must_use]
    pub fn of(flags: u64) -> Self {
        match flags & TF {
            0 => Self::Off,
            _ => Self::On,
        }
    }

    /// The bit in `rflags`.
    #[must_use]
    pub fn bit(self) -> u64 {
        match self {
            Self::Off => 0,
            Self::On | Self::Due => TF,
        }
    }
}
