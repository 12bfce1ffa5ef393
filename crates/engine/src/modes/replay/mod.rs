//! Replay: the recorded threads of one process run as saved contexts on one host thread;
//! the kernel is answered from the tapes. Every event is checked before it is believed.

mod abreast;
mod advance;
mod beyond;
mod births;
pub mod checksum;
pub mod confine;
mod files;
mod finish;
pub mod foreign;
mod guided;
mod inherited;
mod mode;
mod output;
mod report;
mod session;
mod turns;

pub use abreast::ABREAST;
pub use beyond::possible as may_fault_behind_files;
pub use confine::is_confined;
pub use files::{open_copy, shared_copy, shared_grows};
pub use guided::{VARIABLE as GUIDE, is_guided, wrote};
pub use inherited::{above_streams, close as close_inherited};
pub use mode::Replay;
pub use report::divergence;
pub use session::{alone, main, open_copy, shared_copy, shared_grows};
pub use session::{alone, count_quietly, main};
