//! How Rust passes values in registers. Its own convention is documented nowhere; these are the
//! rules of its compiler: a value is a scalar, a pair of scalars, or bytes, and enums are laid out
//! so that the common ones are pairs.

#![expect(non_upper_case_globals, reason = "DWARF's constants have its names")]

use gimli::constants::*;

use crate::types::{Member, Shape, Type};

/// Limit on the nesting of types.
const MOST_DEPTH: usize = 16;
/// Variants that are looked at.
const MOST_VARIANTS: usize = 256;

/// One scalar in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scalar {
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) float: bool,
}

/// The form in which the compiler passes a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Nothing,
    Scalar(Scalar),
    Pair(Scalar, Scalar),
    /// Anything else: passed as a word where it fits into one, and in memory otherwise.
    Bytes,
}

impl Form {
    fn moved(self, by: u64) -> Self {
        let at = |s: Scalar| Scalar {
            offset: s.offset + by,
            ..s
        };
        match self {
            Self::Scalar(one) => Self::Scalar(at(one)),
            Self::Pair(one, two) => Self::Pair(at(one), at(two)),
            other => other,
        }
    }
}

/// The form of a type; `None`: it cannot be determined.
pub(crate) fn form(of: &Type) -> Option<Form> {
    within(of, MOST_DEPTH)
}

fn within(of: &Type, depth: usize) -> Option<Form> {
    let depth = depth.checked_sub(1)?;
    let size = of.size()?;
    if size == 0 {
        return Some(Form::Nothing);
    }
    let scalar = |float| {
        let offset = 0;
        Some(Form::Scalar(Scalar {
            offset,
            size,
            float,
        }))
    };
    match of.shape() {
        Shape::Base(DW_ATE_float) => scalar(true),
        Shape::Base(DW_ATE_complex_float) => None,
        Shape::Base(_) | Shape::Pointer(_) | Shape::Enum => scalar(false),
        Shape::Array(..) => Some(Form::Bytes),
        Shape::Class => match of.variants() {
            Some((discriminant, variants)) => choice(discriminant, &variants, size, depth),
            None => together(&of.members(), size, depth),
        },
        Shape::Void | Shape::Other => None,
    }
}

/// The members of nonzero size, with their forms.
fn real(members: &[Member], depth: usize) -> Option<Vec<(u64, Form)>> {
    let mut all = Vec::new();
    for member in members {
        match within(&member.of, depth)? {
            Form::Nothing => {}
            form => all.push((member.offset, form.moved(member.offset))),
        }
    }
    all.sort_by_key(|(offset, _)| *offset);
    Some(all)
}

/// Members that exist at the same time.
fn together(members: &[Member], size: u64, depth: usize) -> Option<Form> {
    let all = real(members, depth)?;
    Some(match all[..] {
        [] => Form::Bytes,
        [(0, form)] => form,
        // A union.
        [(a, _), (b, _), ..] if a == b => return None,
        [(_, Form::Scalar(one)), (_, Form::Scalar(two))] => pair(one, two, size),
        _ => Form::Bytes,
    })
}

/// Two scalars form a pair if they lie at a pair's offsets.
fn pair(one: Scalar, two: Scalar, size: u64) -> Form {
    let align = |s: Scalar| s.size.max(1);
    let end = (two.offset + two.size).next_multiple_of(align(one).max(align(two)));
    let fits = one.offset == 0 && two.offset == one.size.next_multiple_of(align(two));
    match fits && end == size {
        true => Form::Pair(one, two),
        false => Form::Bytes,
    }
}

/// One of several variants.
fn choice(
    discriminant: Option<Member>,
    variants: &[(bool, Member)],
    size: u64,
    depth: usize,
) -> Option<Form> {
    if variants.len() > MOST_VARIANTS {
        return None;
    }
    let members = |variant: &Member| variant.of.members();
    let Some(tag) = discriminant else {
        return match variants {
            [(_, only)] => together(&members(only), size, depth),
            _ => None,
        };
    };
    if let Some((_, holding)) = variants.iter().find(|(chosen, _)| !chosen) {
        // The tag is a niche: a value that a member of that variant never has.
        for (_, other) in variants.iter().filter(|(chosen, _)| *chosen) {
            if !real(&members(other), depth)?.is_empty() {
                return Some(Form::Bytes);
            }
        }
        return together(&members(holding), size, depth);
    }
    let tag = Scalar {
        offset: tag.offset,
        size: tag.of.size()?,
        float: false,
    };
    let mut common: Option<Scalar> = None;
    for (_, variant) in variants {
        let one = match real(&members(variant), depth)?[..] {
            [] => continue,
            [(_, Form::Scalar(one))] => one,
            _ => return Some(Form::Bytes),
        };
        if common.is_some_and(|before| before != one) {
            return Some(Form::Bytes);
        }
        common = Some(one);
    }
    Some(match common {
        None => Form::Scalar(tag),
        Some(one) => pair(tag, one, size),
    })
}
