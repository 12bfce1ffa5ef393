//! Values as text, by their types.

#![expect(non_upper_case_globals, reason = "DWARF's constants have its names")]

use gimli::DwAte;
use gimli::constants::*;

use crate::evaluate::Where;
use crate::types::{Shape, Type, mask};
use crate::{Registers, Target};

/// Characters of a string that are shown.
const MOST_TEXT: u64 = 200;
/// Elements of an array, or members of a class, that are shown.
const MOST_PARTS: usize = 10;
/// Classes in classes that are shown.
const MOST_DEPTH: usize = 4;
/// Bytes of a value that are looked at.
const MOST_BYTES: u64 = 4096;

/// Registers that values are passed in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passing {
    /// General registers and the program counter.
    pub general: Registers,
    /// The lower 16 bytes of the vector registers.
    pub vector: [[u8; 16]; 16],
}

/// Shows values.
pub(crate) struct Shower<'a> {
    pub(crate) target: &'a mut dyn Target,
    /// The name of code.
    pub(crate) function: &'a dyn Fn(u64) -> Option<String>,
}

/// What is not known.
pub(crate) const UNKNOWN: &str = "?";

impl Shower<'_> {
    /// A value where it is; `None` if that is not known.
    pub(crate) fn show(&mut self, of: &Type, place: &Where, from: &Passing) -> Option<String> {
        // Of long ones the beginning is enough.
        let size = of.size()?.min(MOST_BYTES) as usize;
        let bytes = self.bytes(place, size, from)?;
        Some(self.text(of, &bytes, 0))
    }

    fn bytes(&mut self, place: &Where, size: usize, from: &Passing) -> Option<Vec<u8>> {
        let mut bytes = vec![0; size];
        match place {
            Where::Memory(at) => {
                if !self.target.read(*at, &mut bytes) {
                    return None;
                }
            }
            Where::Register(n) => {
                let whole = register(from, *n)?;
                let len = whole.len().min(size);
                if len < size {
                    return None;
                }
                bytes.copy_from_slice(&whole[..len]);
            }
            Where::Value(value) => {
                let len = value.len().min(size);
                bytes[..len].copy_from_slice(&value[..len]);
            }
            Where::Pieces(pieces) => {
                let mut at = 0;
                for (place, len) in pieces {
                    let end = (at + len).min(size);
                    let part = self.bytes(place, end.checked_sub(at)?, from)?;
                    bytes[at..end].copy_from_slice(&part);
                    at = end;
                }
                if at < size {
                    return None;
                }
            }
            Where::Nowhere => return None,
        }
        Some(bytes)
    }

    fn text(&mut self, of: &Type, bytes: &[u8], depth: usize) -> String {
        let size = of.size().unwrap_or(0);
        let number = number(bytes, 0, size).unwrap_or(0);
        match of.shape() {
            Shape::Base(encoding) => base(encoding, bytes, number, size),
            Shape::Enum => match of.enumerator(number, size) {
                Some(name) => name,
                None => number.to_string(),
            },
            Shape::Pointer(to) if of.is_reference() => self.referred(&to, number, depth),
            Shape::Pointer(to) => self.pointer(&to, number),
            Shape::Array(element, count) => self.array(&element, count, bytes, depth),
            Shape::Class => self.class(of, bytes, depth),
            Shape::Void | Shape::Other if size > 0 => format!("{number:#x}"),
            Shape::Void | Shape::Other => UNKNOWN.to_owned(),
        }
    }

    /// What a reference stands for.
    fn referred(&mut self, to: &Type, at: u64, depth: usize) -> String {
        let size = to.size().unwrap_or(0).min(MOST_BYTES);
        let mut bytes = vec![0; size as usize];
        match size > 0 && depth < MOST_DEPTH && self.target.read(at, &mut bytes) {
            true => self.text(to, &bytes, depth + 1),
            false => format!("{at:#x}"),
        }
    }

    fn pointer(&mut self, to: &Type, at: u64) -> String {
        match to.shape() {
            Shape::Base(encoding) if is_char(encoding) && to.size() == Some(1) && at != 0 => {
                match self.string(at) {
                    Some(text) => text,
                    None => format!("{at:#x}"),
                }
            }
            Shape::Other => match (self.function)(at) {
                Some(name) => format!("{at:#x} <{name}>"),
                None => format!("{at:#x}"),
            },
            _ => format!("{at:#x}"),
        }
    }

    /// A text that ends with a zero; `None` if nothing is mapped there.
    fn string(&mut self, at: u64) -> Option<String> {
        let mut all = Vec::new();
        while (all.len() as u64) < MOST_TEXT {
            let here = at.checked_add(all.len() as u64)?;
            // A page that is there says nothing about the next one.
            let len = (64 - here % 64).min(MOST_TEXT - all.len() as u64);
            let mut part = vec![0; len as usize];
            if !self.target.read(here, &mut part) {
                return (!all.is_empty()).then(|| quoted(&all, true));
            }
            if let Some(end) = part.iter().position(|b| *b == 0) {
                all.extend_from_slice(&part[..end]);
                return Some(quoted(&all, false));
            }
            all.append(&mut part);
        }
        Some(quoted(&all, true))
    }

    /// A text of a length that is known.
    fn counted(&mut self, at: u64, len: u64) -> Option<String> {
        let mut bytes = vec![0; len.min(MOST_TEXT) as usize];
        (len == 0 || self.target.read(at, &mut bytes)).then(|| quoted(&bytes, len > MOST_TEXT))
    }

    fn array(&mut self, element: &Type, count: u64, bytes: &[u8], depth: usize) -> String {
        if let Shape::Base(encoding) = element.shape()
            && is_char(encoding)
            && element.size() == Some(1)
        {
            let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
            let shown = end.min(MOST_TEXT as usize);
            return quoted(&bytes[..shown], shown < end);
        }
        let size = element.size().unwrap_or(0) as usize;
        if size == 0 || depth >= MOST_DEPTH {
            return "{…}".to_owned();
        }
        let parts = bytes.chunks_exact(size).take(MOST_PARTS);
        let mut shown: Vec<String> = parts.map(|b| self.text(element, b, depth + 1)).collect();
        if (shown.len() as u64) < count {
            shown.push("…".to_owned());
        }
        format!("{{{}}}", shown.join(", "))
    }

    fn class(&mut self, of: &Type, bytes: &[u8], depth: usize) -> String {
        if let Some(text) = self.text_class(of, bytes) {
            return text;
        }
        if depth >= MOST_DEPTH {
            return "{…}".to_owned();
        }
        if let Some(elements) = self.slice(of, bytes, depth) {
            return elements;
        }
        let read = |offset, size| number(bytes, offset, size);
        if let Some(variant) = of.variant(&read) {
            let name = variant.name.unwrap_or_default();
            let rest = bytes.get(variant.offset as usize..).unwrap_or(&[]);
            return match variant.of.size() {
                Some(size) if size > 0 && !variant.of.members().is_empty() => {
                    let part = &rest[..rest.len().min(size as usize)];
                    format!("{name}{}", self.text(&variant.of, part, depth + 1))
                }
                _ => name,
            };
        }
        let members = of.members();
        let mut shown = Vec::new();
        for member in &members {
            if shown.len() == MOST_PARTS {
                shown.push("…".to_owned());
                break;
            }
            let size = member.of.size().unwrap_or(0);
            let value = match member.bits {
                Some((first, bits)) => match field(bytes, member.offset, first, bits) {
                    Some(value) => self.bit_field(&member.of, value, bits),
                    None => continue,
                },
                None => {
                    let from = bytes.get(member.offset as usize..);
                    let Some(part) = from.and_then(|b| b.get(..size as usize)) else {
                        // Of a long value only the beginning was read.
                        shown.push("…".to_owned());
                        break;
                    };
                    self.text(&member.of, part, depth + 1)
                }
            };
            shown.push(match &member.name {
                Some(name) => format!("{name}={value}"),
                None => value,
            });
        }
        format!("{{{}}}", shown.join(", "))
    }

    /// The elements of a slice of Rust or Go.
    fn slice(&mut self, of: &Type, bytes: &[u8], depth: usize) -> Option<String> {
        if of.language()? == DW_LANG_Rust && of.bare().name().starts_with("Vec<") {
            let (ptr, len) = vec_places(of)?;
            let (at, count) = (number(bytes, ptr, 8)?, number(bytes, len, 8)?);
            return self.elements(&of.parameter("T")?, at, count, depth);
        }
        let (data, length) = match of.language()? {
            DW_LANG_Rust => ("data_ptr", "length"),
            DW_LANG_Go => ("array", "len"),
            _ => return None,
        };
        let all = of.members();
        let member = |name: &str| all.iter().find(|m| m.name.as_deref() == Some(name));
        let (data, length) = (member(data)?, member(length)?);
        let Shape::Pointer(element) = data.of.shape() else {
            return None;
        };
        let (at, count) = (
            number(bytes, data.offset, 8)?,
            number(bytes, length.offset, 8)?,
        );
        self.elements(&element, at, count, depth)
    }

    /// Elements that follow each other in memory.
    fn elements(&mut self, element: &Type, at: u64, count: u64, depth: usize) -> Option<String> {
        let size = element.size().filter(|size| *size > 0)?;
        let shown = size.checked_mul(count.min(MOST_PARTS as u64))?;
        let mut part = vec![0; usize::try_from(shown.min(MOST_BYTES)).ok()?];
        if !part.is_empty() && !self.target.read(at, &mut part) {
            return None;
        }
        Some(self.array(element, count, &part, depth))
    }

    fn bit_field(&mut self, of: &Type, value: u64, bits: u64) -> String {
        let size = of.size().unwrap_or(8);
        let signed = matches!(of.shape(), Shape::Base(DW_ATE_signed | DW_ATE_signed_char));
        let sign = bits > 0 && value >> (bits - 1) & 1 == 1;
        let whole = match signed && sign {
            true => value | !low(bits),
            false => value,
        };
        self.text(of, &whole.to_le_bytes()[..size.min(8) as usize], 0)
    }

    /// Classes that are texts: Rust's and Go's, and C++'s of libstdc++.
    fn text_class(&mut self, of: &Type, bytes: &[u8]) -> Option<String> {
        let name = of.bare().name();
        let word = |offset: u64| number(bytes, offset, 8);
        let member = |name: &str| {
            let all = of.members();
            all.into_iter().find(|m| m.name.as_deref() == Some(name))
        };
        match of.language()? {
            DW_LANG_Rust if name == "&str" => {
                let (at, len) = (member("data_ptr")?.offset, member("length")?.offset);
                self.counted(word(at)?, word(len)?)
            }
            DW_LANG_Rust if name == "String" => {
                let vec = member("vec")?;
                let (ptr, len) = vec_places(&vec.of)?;
                self.counted(word(vec.offset + ptr)?, word(vec.offset + len)?)
            }
            DW_LANG_Go if name == "string" => {
                let (at, len) = (member("str")?.offset, member("len")?.offset);
                self.counted(word(at)?, word(len)?)
            }
            _ if name.starts_with("basic_string<char,") => {
                let (at, len) = (member("_M_dataplus")?, member("_M_string_length")?);
                self.counted(word(at.offset)?, word(len.offset)?)
            }
            _ => None,
        }
    }
}

/// Where pointer and length of Rust's `Vec { buf: RawVec { inner: { ptr, cap } }, len }` lie.
fn vec_places(vec: &Type) -> Option<(u64, u64)> {
    let inside = |ty: &Type, name: &str| {
        let all = ty.members();
        all.into_iter().find(|m| m.name.as_deref() == Some(name))
    };
    let len = inside(vec, "len")?.offset;
    let buf = inside(vec, "buf")?;
    let (inner, ptr) = match inside(&buf.of, "inner") {
        Some(inner) => (inner.offset, inside(&inner.of, "ptr")?.offset),
        None => (0, inside(&buf.of, "ptr")?.offset),
    };
    Some((buf.offset + inner + ptr, len))
}

/// The bytes of a register by DWARF's number (System V ABI for x86-64, figure 3.36).
fn register(from: &Passing, n: u16) -> Option<Vec<u8>> {
    match n {
        0..=15 => Some(from.general.general[usize::from(n)].to_le_bytes().to_vec()),
        17..=32 => Some(from.vector[usize::from(n) - 17].to_vec()),
        _ => None,
    }
}

fn is_char(encoding: DwAte) -> bool {
    matches!(
        encoding,
        DW_ATE_signed_char | DW_ATE_unsigned_char | DW_ATE_UTF
    )
}

fn base(encoding: DwAte, bytes: &[u8], number: u64, size: u64) -> String {
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

/// A number of the x87's own format, as near as a double comes.
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
    // In two steps, for the power alone may be out of a double's range.
    let scale = exponent - 16383 - 63;
    let half = scale / 2;
    Some(sign * mantissa as f64 * 2f64.powi(half) * 2f64.powi(scale - half))
}

/// A number of so many bytes, up to 8.
fn number(bytes: &[u8], offset: u64, size: u64) -> Option<u64> {
    let offset = usize::try_from(offset).ok()?;
    let part = bytes.get(offset..offset.checked_add(size.min(8) as usize)?)?;
    let mut word = [0; 8];
    word[..part.len()].copy_from_slice(part);
    Some(u64::from_le_bytes(word) & mask(size))
}

fn low(bits: u64) -> u64 {
    match bits {
        0..64 => (1 << bits) - 1,
        _ => u64::MAX,
    }
}

/// The bits of a bit field.
fn field(bytes: &[u8], offset: u64, first: u64, bits: u64) -> Option<u64> {
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
fn quoted(bytes: &[u8], more: bool) -> String {
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
