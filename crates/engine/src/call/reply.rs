//! The answer of the engine to a system call.

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
    /// The result of a call that succeeds with 0, or fails with a negative error number.
    #[must_use]
    pub fn done(done: std::result::Result<(), i64>) -> Self {
        Self::Value(done.map_or_else(|errno| errno, |()| 0))
    }
}
