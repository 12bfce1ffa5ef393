//! gdb's machine interface, version 3: what gdb prints, line by line, and how words are quoted
//! in what it is told
//! (<https://sourceware.org/gdb/current/onlinedocs/gdb.html/GDB_002fMI.html>).
//!
//! Must take any bytes: what is no record of the interface is [`Record::Other`], never a panic.

mod parse;
mod record;
mod value;

pub use parse::parse;
pub use record::Record;
pub use value::Value;

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
