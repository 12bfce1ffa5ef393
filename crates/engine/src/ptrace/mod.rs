//! ptrace(2) among recorded processes. The kernel's own is never called: a tracer's requests are answered by
//! the host of its tracee.
//!
//! - The tracer's calls, and the SIGCHLD that it gets, are events of its tape, with their results.
//! - A tracee's stop leaves no event. A change by its tracer during a stop is one ([`change`]).
//!
//! So a replay of either needs nothing of the other, and nothing here but [`change::replay`] runs in one.

mod asks;
pub mod change;
pub mod ends;
pub mod intake;
pub mod newcomers;
pub mod pokes;
pub mod registers;
mod replies;
pub mod requests;
pub mod slots;
pub mod standing;
pub mod step;
pub mod stop;
pub mod tracee;
pub mod tracee_memory;
pub mod tracer;
pub mod waiting;
