//! The answer of the engine to a system call.

use crate::failure::{CallError, CallResult, Result};
use crate::flow::Flow;

/// The answer of a hook.
pub enum Reply {
    /// The result.
    Value(i64),
    /// Everything has been logged and set; the flow says how the task goes on.
    Flow(Flow),
    /// Everything has been logged and set; the task runs on.
    Returned,
}

impl Reply {
    /// The result of a call that succeeds with 0, or fails with an error number.
    ///
    /// # Errors
    /// The failure.
    pub fn done(done: CallResult<()>) -> Result<Self> {
        let result = done.map_or_else(CallError::result, |()| Ok(0));
        result.map(Self::Value)
    }
}
