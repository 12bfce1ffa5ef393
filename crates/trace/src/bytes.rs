//! Byte strings in JSON without loss.
//!
//! Command lines, paths and environments are bytes, JSON strings are Unicode. Bytes that
//! are UTF-8 become a string; others become `{"hex": "…"}`.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A byte string.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    /// For the functions of the standard library.
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }
}

impl<T: Into<OsString>> From<T> for Bytes {
    fn from(value: T) -> Self {
        Self(value.into().into_vec())
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(&self.0).fmt(f)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Json<'a> {
    Text(std::borrow::Cow<'a, str>),
    Hex { hex: String },
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => Json::Text(text.into()),
            Err(_) => Json::Hex {
                hex: to_hex(&self.0),
            },
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Json::deserialize(deserializer)? {
            Json::Text(text) => Ok(Self(text.into_owned().into_bytes())),
            Json::Hex { hex } => from_hex(&hex)
                .map(Self)
                .ok_or_else(|| D::Error::custom("an odd or non-hexadecimal byte string")),
        }
    }
}

/// Lower-case hexadecimal digits, two for each byte.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|nibble| char::from(DIGITS[usize::from(nibble)]))
        .collect()
}

/// Inverse of [`to_hex`]; only lower case, so that a file name has one spelling.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let nibble = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs
        .iter()
        .map(|[high, low]| Some(nibble(*high)? << 4 | nibble(*low)?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_every_byte() {
        for raw in [
            &b""[..],
            b"text \"quoted\" \n",
            b"\xff\x00\xfe",
            "größe".as_bytes(),
        ] {
            let bytes = Bytes(raw.to_vec());
            let json = serde_json::to_string(&bytes).unwrap();
            assert_eq!(
                serde_json::from_str::<Bytes>(&json).unwrap(),
                bytes,
                "{json}"
            );
        }
        assert_eq!(
            serde_json::to_string(&Bytes(vec![0xff, 0])).unwrap(),
            r#"{"hex":"ff00"}"#
        );
    }

    #[test]
    fn hex_is_strict() {
        for bad in ["f", "0g", "FF", "é"] {
            assert_eq!(from_hex(bad), None, "{bad}");
        }
    }
}
