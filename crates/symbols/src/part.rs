//! From a value to a part of it: members, elements, the target of a pointer.

use crate::evaluate::Where;
use crate::names::near;
use crate::target::{Registers, Target};
use crate::types::{Member, Shape, Type};
use crate::unknown::Unknown;

/// Limit on the nesting of unnamed members and base classes.
const MOST_DEPTH: usize = 16;
/// Names of members that are listed where none matches.
const MOST_NAMES: usize = 20;

/// A value on the way to a part of it.
pub(crate) struct Walk<'a> {
    pub(crate) target: &'a mut dyn Target,
    pub(crate) registers: Option<&'a Registers>,
    pub(crate) of: Type,
    pub(crate) place: Where,
    /// Of a bit field: its first bit, and how many it has.
    pub(crate) bits: Option<(u64, u64)>,
}

impl Walk<'_> {
    pub(crate) fn member(&mut self, name: &str) -> Result<(), Unknown> {
        if matches!(self.of.shape(), Shape::Pointer(_)) {
            self.target()?;
        }
        if !matches!(self.of.shape(), Shape::Class) {
            return Err(format!("{} has no members", self.of.name()).into());
        }
        let mut names = Vec::new();
        let Some((offset, found)) = find(&self.of, name, MOST_DEPTH, &mut names) else {
            let near = near(name, names.iter().map(String::as_str));
            let shown = if near.is_empty() { names } else { near };
            let shown: Vec<String> = shown.into_iter().take(MOST_NAMES).collect();
            return Err(format!(
                "{} has no member {name}; it has {}",
                self.of.name(),
                shown.join(", ")
            )
            .into());
        };
        self.at(offset)?;
        self.bits = found.bits;
        self.of = found.of;
        Ok(())
    }

    pub(crate) fn index(&mut self, n: u64) -> Result<(), Unknown> {
        let (element, count) = match self.of.shape() {
            Shape::Array(element, count) => (element, count),
            Shape::Pointer(element) => {
                self.target()?;
                (element, 0)
            }
            Shape::Class => self.slice()?,
            _ => return Err(format!("{} has no elements", self.of.name()).into()),
        };
        if count > 0 && n >= count {
            return Err(format!("{} has {count} elements", self.of.name()).into());
        }
        let size = element
            .size()
            .ok_or("the size of its elements is not known")?;
        self.at(n.checked_mul(size).ok_or("no memory is that large")?)?;
        self.of = element;
        Ok(())
    }

    /// Goes to the elements of a slice of Rust or Go, or a vector of C++.
    fn slice(&mut self) -> Result<(Type, u64), Unknown> {
        let whole = self.of.clone();
        let none = || {
            Unknown::from(format!(
                "{} has no elements that can be counted",
                whole.name()
            ))
        };
        let word = |walk: &mut Self, names: &[&str]| -> Option<(Type, u64)> {
            let (mut of, mut at) = (whole.clone(), 0u64);
            for name in names {
                let (offset, inner) = find(&of, name, MOST_DEPTH, &mut Vec::new())?;
                (of, at) = (inner.of, at.checked_add(offset)?);
            }
            let Where::Memory(start) = walk.place else {
                return None;
            };
            Some((of, walk.target.word(start.checked_add(at)?)?))
        };
        let ways: [(&[&str], &[&str]); 3] = [
            (&["data_ptr"], &["length"]),
            (&["array"], &["len"]),
            (&["_M_impl", "_M_start"], &["_M_impl", "_M_finish"]),
        ];
        for (data, end) in ways {
            let Some(((to, start), (_, end))) = word(self, data).zip(word(self, end)) else {
                continue;
            };
            let Shape::Pointer(element) = to.shape() else {
                continue;
            };
            let count = if data.len() == 1 {
                end
            } else {
                let size = element.size().filter(|size| *size > 0).ok_or_else(none)?;
                end.wrapping_sub(start) / size
            };
            if count == 0 {
                return Err(format!("{} is empty there", whole.name()).into());
            }
            self.place = Where::Memory(start);
            return Ok((element, count));
        }
        Err(none())
    }

    pub(crate) fn target(&mut self) -> Result<(), Unknown> {
        let Shape::Pointer(to) = self.of.shape() else {
            return Err(format!("{} is no pointer", self.of.name()).into());
        };
        let at = match &self.place {
            Where::Memory(at) => {
                let at = *at;
                self.target
                    .word(at)
                    .ok_or_else(|| format!("nothing is mapped at {at:#x}, where the pointer is"))?
            }
            Where::Register(n) => {
                let all = self.registers.map(|r| r.general);
                let value = all.and_then(|all| all.get(usize::from(*n)).copied());
                value.ok_or("the pointer's register is not known")?
            }
            Where::Value(bytes) if bytes.len() == 8 => {
                u64::from_le_bytes(bytes[..].try_into().unwrap_or_default())
            }
            _ => return Err("the pointer was optimized out there".into()),
        };
        if at == 0 {
            return Err(format!("the pointer ({}) is null there", self.of.name()).into());
        }
        self.of = to;
        self.place = Where::Memory(at);
        Ok(())
    }

    /// Goes this many bytes into it.
    fn at(&mut self, offset: u64) -> Result<(), Unknown> {
        match &mut self.place {
            Where::Memory(at) => *at = at.wrapping_add(offset),
            _ if offset == 0 => {}
            _ => return Err("it is not in memory there".into()),
        }
        Ok(())
    }
}

/// A member of a class, of its base classes, or of unnamed ones in it.
fn find(of: &Type, name: &str, depth: usize, names: &mut Vec<String>) -> Option<(u64, Member)> {
    let depth = depth.checked_sub(1)?;
    for member in of.members() {
        match &member.name {
            Some(own) if own == name => return Some((member.offset, member)),
            Some(own) => names.push(own.clone()),
            None => {
                if let Some((offset, found)) = find(&member.of, name, depth, names) {
                    return Some((member.offset.checked_add(offset)?, found));
                }
            }
        }
    }
    None
}
