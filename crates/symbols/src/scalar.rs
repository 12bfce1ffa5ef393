//! Numbers, characters and bit fields as text.

#![expect(non_upper_case_globals, reason = "DWARF's constants have its names")]

use gimli::DwAte;
use gimli::constants::*;

use crate::types::mask;

/// Text for an unknown value.
pub(crate) const UNKNOWN: &str = "?";

/// Whether the encoding is one of C's character types.
pub(crate) fn is_char(encoding: DwAte) -> bool {
    matches!(
        encoding,
        DW_ATE_signed_char | DW_ATE_unsigned_char | DW_ATE_UTF
    )
}

/// A value of a base type as text; `number` is the value of its bytes.
pub(crate) fn base(encoding: DwAte, bytes: &[u8], number: u64, size: u64) -> String {
    match (encoding, size) {
        (DW_ATE_boolean, _) if number < 2 => (number == 1).to_string(),
        (DW_ATE_signed_char | DW_ATE_unsigned_char, 1) => {
            let byte = number as u8;
            let value = match encoding {
                DW_ATE_signed_char => i64::from(byte.cast_signed()),
                _ => i64::from(byte),
            };
            match byte {
                b' '..=b'~' => format!("{value} '{}'", char::from(byte)),
                _ => value.to_string(),
            }
        }
        (DW_ATE_UTF, _) => match char::from_u32(number as u32).filter(|c| !c.is_control()) {
            Some(c) => format!("'{c}'"),
            None => number.to_string(),
        },
        (DW_ATE_signed | DW_ATE_signed_char, 1..=8) => {
            let shift = 64 - 8 * size;
            ((number << shift).cast_signed() >> shift).to_string()
        }
        (DW_ATE_unsigned | DW_ATE_unsigned_char | DW_ATE_boolean, 1..=8) => number.to_string(),
        (DW_ATE_signed, 16) => {
            wide(bytes).map_or(UNKNOWN.to_owned(), |v| v.cast_signed().to_string())
        }
        (DW_ATE_unsigned, 16) => wide(bytes).map_or(UNKNOWN.to_owned(), |v| v.to_string()),
        (DW_ATE_float, 4) => f32::from_bits(number as u32).to_string(),
        (DW_ATE_float, 8) => f64::from_bits(number).to_string(),
        (DW_ATE_float, 16) => extended(bytes).map_or(UNKNOWN.to_owned(), |v| v.to_string()),
        (DW_ATE_address, _) => format!("{number:#x}"),
        _ => {
            let all: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            format!("0x{all} in memory")
        }
    }
}

fn wide(bytes: &[u8]) -> Option<u128> {
    Some(u128::from_le_bytes(bytes.get(..16)?.try_into().ok()?))
}

/// A number of the x87's own format, as the nearest double.
fn extended(bytes: &[u8]) -> Option<f64> {
    let mantissa = number(bytes, 0, 8)?;
    let head = number(bytes, 8, 2)?;
    let sign = if head >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = (head & 0x7fff) as i32;
    if exponent == 0x7fff {
        return Some(if mantissa << 1 == 0 {
            sign * f64::INFINITY
        } else {
            f64::NAN
        });
    }
    // In two steps, because the power alone may exceed a double's range.
    let scale = exponent - 16383 - 63;
    let half = scale / 2;
    Some(sign * mantissa as f64 * 2f64.powi(half) * 2f64.powi(scale - half))
}

/// A number of `size` bytes, up to 8.
pub(crate) fn number(bytes: &[u8], offset: u64, size: u64) -> Option<u64> {
    let offset = usize::try_from(offset).ok()?;
    let part = bytes.get(offset..offset.checked_add(size.min(8) as usize)?)?;
    let mut word = [0; 8];
    word[..part.len()].copy_from_slice(part);
    Some(u64::from_le_bytes(word) & mask(size))
}

/// A mask of this many low bits.
pub(crate) fn low(bits: u64) -> u64 {
    match bits {
        0..64 => (1 << bits) - 1,
        _ => u64::MAX,
    }
}

/// The bits of a bit field.
pub(crate) fn field(bytes: &[u8], offset: u64, first: u64, bits: u64) -> Option<u64> {
    if bits > 64 || first > 7 {
        return None;
    }
    let len = (first + bits).div_ceil(8);
    let mut all = [0; 16];
    let offset = usize::try_from(offset).ok()?;
    let part = bytes.get(offset..offset.checked_add(len as usize)?)?;
    all[..part.len()].copy_from_slice(part);
    Some((u128::from_le_bytes(all) >> first) as u64 & low(bits))
}

/// A text in quotation marks.
pub(crate) fn quoted(bytes: &[u8], more: bool) -> String {
    let mut text = String::from("\"");
    for part in bytes.utf8_chunks() {
        text.extend(part.valid().chars().flat_map(|c| match c {
            '\'' => vec!['\''],
            c if c.is_control() || c == '"' || c == '\\' => c.escape_default().collect(),
            c => vec![c],
        }));
        for byte in part.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text.push('"');
    if more {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_and_numbers() {
        let bytes = 0b1011_0110_1100_0101u16.to_le_bytes();
        assert_eq!(field(&bytes, 0, 2, 4), Some(0b0001));
        assert_eq!(field(&bytes, 0, 6, 5), Some(0b11011));
        assert_eq!(field(&bytes, 1, 0, 9), None);
        assert_eq!(field(&[0xff; 9], 0, 4, 64), Some(u64::MAX));
        let pi = [0, 0xc0, 0x68, 0x21, 0xa2, 0xda, 0x0f, 0xc9, 0x00, 0x40];
        assert!((extended(&pi).unwrap() - std::f64::consts::PI).abs() < 1e-9);
        assert_eq!(base(DW_ATE_signed, &[0xfe], 0xfe, 1), "-2");
        assert_eq!(base(DW_ATE_signed_char, b"a", 97, 1), "97 'a'");
        assert_eq!(quoted(b"a\"\n\xff", true), "\"a\\\"\\n\\xff\"…");
    }
}
