//! Escapes in header values, and quoting for the shell command lines in failure messages.
//!
//! Must never lose a byte: the guest gets exactly the bytes that a header spells, and the text of a
//! failure message can be pasted into a shell.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Resolves `\n`, `\t`, `\s` (a space), `\\`, `\"` and `\xNN` (one byte).
///
/// # Errors
/// An unknown or cut-off escape, named in the message.
pub fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            out.push(bytes[at]);
            at += 1;
            continue;
        }
        let simple = match bytes.get(at + 1) {
            Some(b'n') => Some(b'\n'),
            Some(b't') => Some(b'\t'),
            Some(b's') => Some(b' '),
            Some(b'\\') => Some(b'\\'),
            Some(b'"') => Some(b'"'),
            _ => None,
        };
        if let Some(byte) = simple {
            out.push(byte);
            at += 2;
            continue;
        }
        let byte = (bytes.get(at + 1) == Some(&b'x'))
            .then(|| text.get(at + 2..at + 4))
            .flatten()
            .and_then(|hex| u8::from_str_radix(hex, 16).ok())
            .ok_or_else(|| format!("bad escape at {:?}", text.get(at..).unwrap_or("")))?;
        out.push(byte);
        at += 4;
    }
    Ok(out)
}

/// One word as bash reads it back: bare where possible, else quoted, `$'…'` for odd bytes.
pub fn shell_quote(word: &OsStr) -> String {
    let bytes = word.as_bytes();
    let bare = |b: &u8| b.is_ascii_alphanumeric() || b"-_./=:,+@%".contains(b);
    if !bytes.is_empty() && bytes.iter().all(bare) {
        return word.to_string_lossy().into_owned();
    }
    if bytes.iter().all(|b| (b' '..=b'~').contains(b)) {
        return format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"));
    }
    let mut out = String::from("$'");
    for &b in bytes {
        match b {
            b'\'' | b'\\' => out.extend(['\\', b as char]),
            b' '..=b'~' => out.push(b as char),
            _ => out.push_str(&format!("\\x{b:02x}")),
        }
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_bytes() {
        assert_eq!(unescape(r"a\n\t\s\\\xffz").unwrap(), b"a\n\t \\\xffz");
        for bad in [r"\", r"\q", r"\x", r"\xg0", r"\x1"] {
            assert!(unescape(bad).is_err(), "{bad} must be refused");
        }
    }

    #[test]
    fn quoting_keeps_every_byte() {
        assert_eq!(shell_quote(OsStr::new("a-b/c.d")), "a-b/c.d");
        assert_eq!(shell_quote(OsStr::new("")), "''");
        assert_eq!(shell_quote(OsStr::new("a 'b'")), r"'a '\''b'\'''");
        assert_eq!(shell_quote(OsStr::from_bytes(b"\xff'")), r"$'\xff\''");
    }
}
