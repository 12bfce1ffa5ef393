//! Bytes of a guest as short text that no terminal takes for a command.

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
    String::from_utf8_lossy(text)
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_but_printable_text() {
        assert_eq!(bytes(b"a\"\\\n\x1b[1m\xff\0"), r#""a\"\\\n\x1b[1m\xff\0""#);
        assert_eq!(bytes(b"\x001"), r#""\x001""#);
        assert_eq!(bytes(&[b'x'; 49]), format!("\"{}\"…", "x".repeat(48)));
        assert_eq!(line(b"a\x1bb\n"), "a\u{fffd}b\u{fffd}");
    }
}
