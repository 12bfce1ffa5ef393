//! gdb's machine interface, version 3: what gdb prints, line by line, and how words are quoted
//! in what it is told
//! (<https://sourceware.org/gdb/current/onlinedocs/gdb.html/GDB_002fMI.html>).
//!
//! Must take any bytes: what is no record of the interface is [`Record::Other`], never a panic.

mod parse;
mod value;

pub use parse::parse;
pub use value::Value;

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

/// A word of a command, in quotes: any text becomes one word, and never a second command.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_control() => quoted.push(' '),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_one_line() {
        for (text, expected) in [
            ("a", "\"a\""),
            ("a \"b\"", "\"a \\\"b\\\"\""),
            ("a\\b", "\"a\\\\b\""),
            ("a\n-gdb-exit", "\"a\\n-gdb-exit\""),
            ("a\r\u{85}", "\"a  \""),
        ] {
            assert_eq!(quote(text), expected);
        }
    }
}
