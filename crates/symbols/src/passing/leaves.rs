//! The scalars that a value consists of, which calling conventions go by.

#![expect(non_upper_case_globals, reason = "DWARF's constants have its names")]

use gimli::constants::*;

use crate::passing_rust::{Form, Scalar};
use crate::types::{Shape, Type};

/// Limit on the nesting of classes.
const MOST_DEPTH: usize = 8;
/// Scalars of one value, at most; more are never in registers.
const MOST_LEAVES: usize = 16;

/// One scalar in a value.
#[derive(Clone)]
pub(super) struct Leaf {
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) float: bool,
}

/// The scalars of a Rust value that go into registers, one each; `None`: it is too large.
pub(super) fn rust_leaves(form: Form, size: u64) -> Option<Vec<Leaf>> {
    let words = |from: u64, end: u64| {
        (from..end).step_by(8).map(move |offset| Leaf {
            offset,
            size: (end - offset).min(8),
            float: false,
        })
    };
    let leaf = |s: Scalar| match s.float || s.size <= 8 {
        true => vec![Leaf {
            offset: s.offset,
            size: s.size,
            float: s.float,
        }],
        false => words(s.offset, s.offset + s.size).collect(),
    };
    Some(match form {
        Form::Nothing => Vec::new(),
        _ if size > 16 => return None,
        Form::Bytes if size > 8 => return None,
        Form::Scalar(one) => leaf(one),
        Form::Pair(one, two) => [leaf(one), leaf(two)].concat(),
        Form::Bytes => words(0, size).collect(),
    })
}

/// The scalars of a value; `None` if it does not consist of scalars only.
pub(super) fn leaves(of: &Type) -> Option<Vec<Leaf>> {
    let mut all = Vec::new();
    collect(of, 0, MOST_DEPTH, &mut all)?;
    all.sort_by_key(|leaf| leaf.offset);
    Some(all)
}

fn collect(of: &Type, offset: u64, depth: usize, all: &mut Vec<Leaf>) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    let size = of.size()?;
    let float = match of.shape() {
        Shape::Base(DW_ATE_float) => true,
        Shape::Base(DW_ATE_complex_float) => return None,
        Shape::Base(_) | Shape::Pointer(_) | Shape::Enum => false,
        Shape::Array(element, count) => {
            let one = element.size()?;
            for i in 0..count {
                collect(
                    &element,
                    offset.checked_add(i.checked_mul(one)?)?,
                    depth,
                    all,
                )?;
            }
            return Some(());
        }
        Shape::Class => {
            // The scalars of a Rust enum depend on its value.
            if of.has_variants() {
                return None;
            }
            for member in of.members() {
                collect(&member.of, offset.checked_add(member.offset)?, depth, all)?;
            }
            return Some(());
        }
        // Go's maps and functions.
        Shape::Void | Shape::Other if size == 8 => false,
        Shape::Void | Shape::Other => return None,
    };
    if all.len() == MOST_LEAVES {
        return None;
    }
    all.push(Leaf {
        offset,
        size,
        float,
    });
    Some(())
}

/// 16 for types with an alignment of 16.
pub(super) fn alignment(of: &Type) -> u64 {
    let wide = leaves(of).is_some_and(|all| all.iter().any(|leaf| leaf.size == 16));
    if wide { 16 } else { 8 }
}
