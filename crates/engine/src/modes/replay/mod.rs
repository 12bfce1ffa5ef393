//! Replay: the recorded threads of one process run as saved contexts on one host thread;
//! the kernel is answered from the tapes. Every event is checked before it is believed.

mod answers;
mod births;
mod calls;
pub mod checksum;
mod concurrency;
pub mod confine;
mod content;
mod events;
mod execute;
mod files;
mod finish;
mod guided;
mod inherited;
mod mode;
pub mod other_writers;
mod output;
mod past_end_of_file;
mod report;
mod session;
mod start;
mod state;
mod stepper;
mod turns;

pub use concurrency::CONCURRENCY;
pub use guided::{VARIABLE as GUIDE, is_guided, wrote};
pub use inherited::close as close_inherited;
pub use mode::Replay;
pub use past_end_of_file::possible as may_fault_past_end_of_file;
pub use report::divergence;
pub use start::main;
pub use state::alone;
