//! Instructions that a thread has forbidden itself: reading the time stamp counter (prctl(2),
//! `PR_SET_TSC`) and `cpuid` (arch_prctl(2), `ARCH_SET_CPUID`). They raise SIGSEGV then. They must never
//! be forbidden in the processor, as the host goes on using both.

use relive_dbt::InstrOp;
use serde::{Deserialize, Serialize};

/// The instructions that a thread may not execute. Its children inherit both, a new program the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forbidden {
    /// `rdtsc` and `rdtscp`.
    pub counter: bool,
    /// `cpuid`.
    pub cpuid: bool,
}

impl Forbidden {
    /// Whether an instruction is forbidden.
    #[must_use]
    pub fn has(self, op: &InstrOp) -> bool {
        match op {
            InstrOp::Rdtsc | InstrOp::Rdtscp => self.counter,
            InstrOp::Cpuid => self.cpuid,
            _ => false,
        }
    }
}
