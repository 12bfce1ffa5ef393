//! Values as text, by their types.

#![expect(non_upper_case_globals, reason = "DWARF's constants have its names")]

use gimli::constants::*;

use crate::evaluate::Where;
use crate::scalar::{UNKNOWN, base, field, is_char, low, number, quoted};
use crate::target::{Registers, Target};
use crate::types::{Shape, Type};

/// Limit on the characters of a string.
const MOST_TEXT: u64 = 200;
/// Limit on the elements of an array, or the members of a class.
const MOST_PARTS: usize = 10;
/// Limit on the nesting of classes.
const MOST_DEPTH: usize = 4;
/// Limit on the bytes of a value.
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
    /// The name of the code at an address.
    pub(crate) function: &'a dyn Fn(u64) -> Option<String>,
}

impl Shower<'_> {
    /// A value by its place; `None` if that is not known.
    pub(crate) fn show(&mut self, of: &Type, place: &Where, from: &Passing) -> Option<String> {
        // Of long values only the beginning is read.
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

    /// The target of a reference.
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

    /// A zero-terminated text; `None` if nothing is mapped there.
    fn string(&mut self, at: u64) -> Option<String> {
        let mut all = Vec::new();
        while (all.len() as u64) < MOST_TEXT {
            let here = at.checked_add(all.len() as u64)?;
            // A mapped page says nothing about the next one.
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

    /// A text of known length.
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

    /// Classes that are strings: Rust's and Go's, and those of libstdc++.
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
