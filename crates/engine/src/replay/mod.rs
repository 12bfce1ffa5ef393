//! Replay: the recorded threads of one process run as saved contexts on one host thread;
//! the kernel is answered from the tapes. Every event is checked before it is believed.

mod abreast;
mod advance;
mod beyond;
pub mod checksum;
pub mod confine;
pub mod foreign;
mod guided;
mod inherited;
mod report;
mod session;
mod turns;

pub use abreast::{Abreast, has_ended};
pub use advance::{Found, SYNCHRONOUS, answer, ends_thread, expect_fault, instruction, reading};
pub use beyond::{BeyondFile, possible as may_fault_behind_files};
pub use confine::is_confined;
pub use guided::{VARIABLE as GUIDE, is_guided, wrote};
pub use inherited::{above_streams, close as close_inherited};
pub use report::divergence;
pub use session::{
    add_task, alone, caught, count_event, count_quietly, fork_host, main, open_copy, open_tape,
    quiet, shared_copy, shared_grows, start_child,
};
