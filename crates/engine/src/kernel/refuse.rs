//! Refused calls: the guest gets an errno, and the user one warning for each call.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::call::Call;
use crate::failure::Failure;

/// Refuses a call with an errno. The first refusal of each call is logged.
pub fn refuse(call: &Call, errno: i32) -> i64 {
    /// A bit for each call that has been logged. Process-wide: the log is the process's, and has each
    /// warning once.
    static TOLD: [AtomicU64; 8] = [const { AtomicU64::new(0) }; 8];
    let bit = 1 << (call.nr % 64);
    let told = TOLD[(call.nr as usize / 64) % 8].fetch_or(bit, Ordering::Relaxed) & bit != 0;
    if !told {
        let name = relive_kabi::errno_name(errno).unwrap_or("an error");
        tracing::warn!(target: "syscall", "{call} is not supported and fails with {name}");
    }
    -i64::from(errno)
}

/// The failure for an effect of a call that Relive does not support.
#[must_use]
pub fn unsupported(call: &Call, what: &str) -> Failure {
    Failure::unsupported(format!("{call}: {what}"))
}
