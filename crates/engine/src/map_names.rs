//! Names of the guest's maps that the kernel gives, as `/proc/self/maps` shows them (proc(5)).

use std::sync::Arc;

/// The main thread's stack.
pub const STACK: &str = "[stack]";
/// The page of functions that read clocks.
pub const VDSO: &str = "[vdso]";

/// Anonymous memory.
#[must_use]
pub fn unnamed() -> Arc<str> {
    Arc::from("")
}
