//! How a program ended. Nothing here may end a process.

use relive_trace::ExitStatus;

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndStatus {
    /// With this exit code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

impl EndStatus {
    /// From wait(2).
    #[must_use]
    pub fn from_wait(status: i32) -> Self {
        if libc::WIFSIGNALED(status) {
            Self::Signal(libc::WTERMSIG(status))
        } else {
            Self::Code(libc::WEXITSTATUS(status))
        }
    }
}

impl From<ExitStatus> for EndStatus {
    fn from(exit: ExitStatus) -> Self {
        match exit {
            ExitStatus::Code(code) => Self::Code(code),
            ExitStatus::Signal(signal) => Self::Signal(signal),
        }
    }
}
