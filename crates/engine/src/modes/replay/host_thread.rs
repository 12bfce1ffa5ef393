//! The host thread of a replaying process before its first task. Must never run for a second time in one
//! process.

use relive_host::signal::{self, Disposition};

use crate::failure::Result;
use crate::modes::live;
use crate::task::Task;

/// Gets the calling thread ready for the tasks of a replay, of which this is the first that runs.
///
/// # Errors
/// No memory for it.
pub fn get_ready(task: &mut Task) -> Result<()> {
    live::prepare_thread(task)?;
    for sig in relive_host::signal::SYNCHRONOUS {
        signal::set_disposition(sig, Disposition::Handler);
    }
    // SIGPIPE would kill only the writing process, and the others would wait for the end of its
    // turn. The error number instead is a failure like others, which ends all.
    signal::set_disposition(libc::SIGPIPE, Disposition::Ignore);
    Ok(())
}
