//! Bytes of a guest as short text that a terminal cannot take for a command.

use std::fmt::Write;

/// Most bytes of one buffer that are shown.
const SHOWN: usize = 48;

/// A quoted string in C's notation, cut after 48 bytes.
pub fn bytes(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for (i, &byte) in bytes.iter().take(SHOWN).enumerate() {
        match byte {
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            0x20..0x7f => text.push(char::from(byte)),
            // A digit after it would be taken for a part of the number.
            0 if !bytes.get(i + 1).is_some_and(u8::is_ascii_digit) => text.push_str("\\0"),
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text.push('"');
    if bytes.len() > SHOWN {
        text.push('…');
    }
    text
}

/// Text from a trace, on one line.
pub fn line(text: &[u8]) -> String {
    without_controls(&String::from_utf8_lossy(text), |_| false)
}

/// Text of several lines, or with tabs.
pub fn lines(text: &str) -> String {
    without_controls(text, |c| matches!(c, '\n' | '\t'))
}

/// Control characters as JSON has them, so that JSON keeps its meaning: a terminal would obey
/// them, also those of two bytes (U+0080 to U+009F), which JSON leaves as they are.
fn without_controls(text: &str, harmless: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && !harmless(c) {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_printable_text() {
        assert_eq!(bytes(b"a\"\\\n\x1b[1m\xff\0"), r#""a\"\\\n\x1b[1m\xff\0""#);
        assert_eq!(bytes(b"\x001"), r#""\x001""#);
        assert_eq!(bytes(&[b'x'; 49]), format!("\"{}\"…", "x".repeat(48)));
        assert_eq!(line(b"a\x1bb\n"), r"a\u001bb\u000a");
        assert_eq!(lines("a\u{9b}b\n\tc\r\x7f"), "a\\u009bb\n\tc\\u000d\\u007f");
    }
}
