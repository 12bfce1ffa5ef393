//! What one line of gdb's is.

use super::value::Value;

/// One line of gdb's.
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
    /// Something has changed: `breakpoint-modified`, `thread-created`….
    Notify {
        /// What.
        class: String,
        /// A tuple.
        results: Value,
    },
    /// How far a long work is.
    Status,
    /// Text for the person at gdb's console.
    Console(String),
    /// Text of the program or of the server that has it.
    Target(String),
    /// gdb's own messages; commands of the console, too.
    Log(String),
    /// gdb waits for a command.
    Prompt,
    /// None of these.
    Other(String),
}
