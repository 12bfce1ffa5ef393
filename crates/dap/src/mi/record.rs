//! Records: lines of gdb's output.

use super::value::Value;

/// One line of gdb's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The answer to a command.
    Result {
        /// The number that the command had.
        token: Option<u64>,
        /// `done`, `running`, `connected`, `error` or `exit`.
        class: String,
        /// A tuple.
        results: Value,
    },
    /// The program goes on or has stopped: `running` or `stopped`.
    Exec {
        /// Which of the two.
        class: String,
        /// A tuple.
        results: Value,
    },
    /// A change: `breakpoint-modified`, `thread-created`….
    Notify {
        /// Kind of the change.
        class: String,
        /// A tuple.
        results: Value,
    },
    /// Progress of a long operation.
    Status,
    /// Text for the user of gdb's console.
    Console(String),
    /// Text of the program or of its server.
    Target(String),
    /// gdb's own messages; also echoed commands of the console.
    Log(String),
    /// gdb waits for a command.
    Prompt,
    /// Any other line.
    Other(String),
}
