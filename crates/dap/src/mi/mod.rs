//! gdb's machine interface, version 3: the lines that gdb prints, and the quoting of words in
//! commands (<https://sourceware.org/gdb/current/onlinedocs/gdb.html/GDB_002fMI.html>).
//!
//! Must accept any bytes: a line that is no record becomes [`Record::Other`], never a panic.

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
