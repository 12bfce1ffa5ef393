//! Replay: the recorded threads of one process run as saved contexts on one host thread;
//! the kernel is answered from the tapes. Every event is checked before it is believed.
//!
//! Logs: nothing, but the turns that it finds for a recording without them ([`linear`]). Exact: always, or it ends
//! as a divergence. Lock order, outermost first: the right to ask ([`crate::broker`]), process state, memory, the
//! replay's state ([`hook_state`]). A process has one thread, so that it waits for the first alone.

mod answers;
mod births;
pub mod checksum;
pub mod concurrency;
pub mod confine;
pub mod epoch;
pub mod epoch_check;
pub mod events;
mod finish;
pub mod guided;
pub mod hook_state;
mod host_thread;
mod images;
pub mod inherited;
pub mod linear;
mod mapped_copies;
pub mod mode;
mod news;
pub mod other_writers;
mod output_order;
mod own_schedule;
mod past_end_of_file;
pub mod races;
mod recorded_content;
pub mod report;
pub mod session;
pub mod start;
pub mod stepper;
mod watching;
