//! Types as debug information describes them.

#![expect(non_upper_case_globals, reason = "DWARF's constants have its names")]

mod members;

use std::rc::Rc;

use gimli::constants::*;
use gimli::{AttributeValue, DwAte};

use crate::units::{Die, Units};

/// Limit on the nesting of typedefs and qualifiers, arrays, and classes.
const MOST_DEPTH: usize = 32;
/// Limit on the members of a class.
const MOST_MEMBERS: usize = 4096;

/// A type.
#[derive(Clone)]
pub struct Type {
    units: Rc<Units>,
    /// `None` is void.
    die: Option<Die>,
    /// Number of outer dimensions that are left out of an array: the inner ones share the entry of
    /// the whole.
    behind: usize,
}

/// The shape of a type, without its names and qualifiers.
pub(crate) enum Shape {
    Void,
    Base(DwAte),
    /// Pointers and references.
    Pointer(Type),
    /// Elements of a type, and their number; 0 if unknown.
    Array(Type, u64),
    /// Structures, classes and unions.
    Class,
    Enum,
    /// A function, or a type without values.
    Other,
}

/// A member of a class.
pub(crate) struct Member {
    /// `None` for an unnamed member or a base class.
    pub(crate) name: Option<String>,
    /// Bytes from the beginning of the class.
    pub(crate) offset: u64,
    pub(crate) of: Type,
    /// For a bit field: its first bit from that byte on, and the number of bits.
    pub(crate) bits: Option<(u64, u64)>,
}

/// The discriminant of a Rust enum, if it has one, and its variants: for each, whether values of
/// the discriminant select it.
pub(crate) type Variants = (Option<Member>, Vec<(bool, Member)>);

/// Whether a class of this name is an atomic object of the C++ or Rust standard library, or of Go's.
fn is_atomic_class(name: &str) -> bool {
    const RUST: [&str; 13] = [
        "Bool", "Ptr", "I8", "I16", "I32", "I64", "I128", "Isize", "U8", "U16", "U32", "U64",
        "Usize",
    ];
    let name = name
        .rsplit("::")
        .next()
        .filter(|_| !name.contains('<'))
        .unwrap_or(name);
    let plain = name.split('<').next().unwrap_or(name);
    matches!(
        plain,
        "atomic" | "atomic_flag" | "__atomic_base" | "atomic_ref"
    ) || plain == "Atomic"
        || plain
            .strip_prefix("Atomic")
            .is_some_and(|rest| RUST.contains(&rest))
        || plain.starts_with("sync/atomic.")
}

impl Type {
    pub(crate) fn new(units: &Rc<Units>, die: Option<Die>) -> Self {
        Self {
            units: Rc::clone(units),
            die,
            behind: 0,
        }
    }

    fn inner(&self, die: &Die) -> Self {
        Self::new(&self.units, self.units.type_of(die))
    }

    /// The type without typedefs and qualifiers.
    pub(crate) fn bare(&self) -> Self {
        let mut at = self.clone();
        for _ in 0..MOST_DEPTH {
            let Some(die) = &at.die else { break };
            let declared = die.attr(DW_AT_signature);
            if let Some(whole) = declared.and_then(|s| self.units.follow(&die.unit, s)) {
                at.die = Some(whole);
                continue;
            }
            match die.tag() {
                Some(
                    DW_TAG_typedef | DW_TAG_const_type | DW_TAG_volatile_type
                    | DW_TAG_restrict_type | DW_TAG_atomic_type,
                ) => at = self.inner(die),
                _ => break,
            }
        }
        at
    }

    pub(crate) fn shape(&self) -> Shape {
        let bare = self.bare();
        let Some(die) = &bare.die else {
            return Shape::Void;
        };
        match die.tag() {
            Some(DW_TAG_base_type) => match die.attr(DW_AT_encoding) {
                Some(AttributeValue::Encoding(encoding)) => Shape::Base(encoding),
                _ => Shape::Other,
            },
            Some(DW_TAG_pointer_type | DW_TAG_reference_type | DW_TAG_rvalue_reference_type) => {
                Shape::Pointer(bare.inner(die))
            }
            Some(DW_TAG_array_type) => bare.array(bare.behind),
            Some(DW_TAG_structure_type | DW_TAG_class_type | DW_TAG_union_type) => Shape::Class,
            Some(DW_TAG_enumeration_type) => Shape::Enum,
            // Go's maps, channels and functions are pointers.
            Some(DW_TAG_unspecified_type) => Shape::Void,
            _ => Shape::Other,
        }
    }

    /// Whether accesses to it synchronise threads: `_Atomic`, `std::atomic<T>`, `AtomicU32`.
    #[must_use]
    pub fn is_atomic(&self) -> bool {
        let mut at = self.clone();
        for _ in 0..MOST_DEPTH {
            let Some(die) = &at.die else { return false };
            match die.tag() {
                Some(DW_TAG_atomic_type) => return true,
                Some(DW_TAG_structure_type | DW_TAG_class_type) => {
                    return self
                        .units
                        .name(die)
                        .is_some_and(|name| is_atomic_class(&name));
                }
                Some(
                    DW_TAG_typedef | DW_TAG_const_type | DW_TAG_volatile_type
                    | DW_TAG_restrict_type,
                ) => at = at.inner(die),
                _ => return false,
            }
        }
        false
    }

    /// Whether it is a reference: a pointer that stands for its object.
    pub(crate) fn is_reference(&self) -> bool {
        let bare = self.bare();
        let Some(die) = &bare.die else { return false };
        match die.tag() {
            Some(DW_TAG_reference_type | DW_TAG_rvalue_reference_type) => true,
            Some(DW_TAG_pointer_type) if die.unit.language == DW_LANG_Rust => self
                .units
                .name(die)
                .is_some_and(|name| name.starts_with('&')),
            _ => false,
        }
    }

    /// Elements and count of an array, without its `behind` outer dimensions.
    fn array(&self, behind: usize) -> Shape {
        let Some(die) = &self.die else {
            return Shape::Other;
        };
        let dimensions = die.children().into_iter();
        let dimensions: Vec<u64> = dimensions
            .filter(|(_, tag)| *tag == DW_TAG_subrange_type)
            .map(|(range, _)| {
                let upper = || Some(range.number(DW_AT_upper_bound)?.wrapping_add(1));
                range.number(DW_AT_count).or_else(upper).unwrap_or(0)
            })
            .collect();
        let count = dimensions.get(behind).copied().unwrap_or(0);
        if behind + 1 >= dimensions.len() {
            return Shape::Array(self.inner(die), count);
        }
        // The remaining dimensions are the element.
        let mut rest = self.clone();
        rest.behind = behind + 1;
        Shape::Array(rest, count)
    }

    /// Its size in bytes, if it has one.
    pub(crate) fn size(&self) -> Option<u64> {
        self.size_within(MOST_DEPTH)
    }

    fn size_within(&self, depth: usize) -> Option<u64> {
        let bare = self.bare();
        let die = bare.die.as_ref()?;
        if let Some(size) = die.number(DW_AT_byte_size).filter(|_| bare.behind == 0) {
            return Some(size);
        }
        match bare.shape() {
            Shape::Pointer(_) => Some(8),
            Shape::Array(element, count) => {
                let one = element.size_within(depth.checked_sub(1)?)?;
                one.checked_mul(count)
            }
            Shape::Enum => bare.inner(die).size_within(depth.checked_sub(1)?),
            _ => None,
        }
    }

    /// The type as in source code.
    #[must_use]
    pub fn name(&self) -> String {
        self.name_within(MOST_DEPTH)
    }

    fn name_within(&self, depth: usize) -> String {
        let Some(die) = &self.die else {
            return "void".to_owned();
        };
        let tag = die.tag();
        let own = self.units.name(die);
        let Some(depth) = depth.checked_sub(1) else {
            return "…".to_owned();
        };
        let inner = || self.inner(die).name_within(depth);
        match (tag, own) {
            (Some(DW_TAG_structure_type), Some(name)) if self.is_c() => format!("struct {name}"),
            (Some(DW_TAG_union_type), Some(name)) if self.is_c() => format!("union {name}"),
            (Some(DW_TAG_enumeration_type), Some(name)) if self.is_c() => format!("enum {name}"),
            (Some(DW_TAG_array_type), _) => match self.array(self.behind) {
                Shape::Array(element, 0) => format!("{}[]", element.name_within(depth)),
                Shape::Array(element, count) => {
                    // The outer count comes first: int[2][3].
                    let name = element.name_within(depth);
                    let at = name.find('[').unwrap_or(name.len());
                    format!("{}[{count}]{}", &name[..at], &name[at..])
                }
                _ => "…".to_owned(),
            },
            (_, Some(name)) => name,
            (Some(DW_TAG_pointer_type), _) => {
                let of = inner();
                let space = if of.ends_with('*') { "" } else { " " };
                format!("{of}{space}*")
            }
            (Some(DW_TAG_reference_type), _) => format!("{} &", inner()),
            (Some(DW_TAG_rvalue_reference_type), _) => format!("{} &&", inner()),
            (Some(DW_TAG_const_type), _) => format!("const {}", inner()),
            (Some(DW_TAG_volatile_type), _) => format!("volatile {}", inner()),
            (Some(DW_TAG_restrict_type), _) => inner(),
            (Some(DW_TAG_atomic_type), _) => format!("_Atomic {}", inner()),
            (Some(DW_TAG_subroutine_type), _) => "function".to_owned(),
            (Some(DW_TAG_structure_type | DW_TAG_class_type), _) => "struct {…}".to_owned(),
            (Some(DW_TAG_union_type), _) => "union {…}".to_owned(),
            (Some(DW_TAG_enumeration_type), _) => "enum {…}".to_owned(),
            _ => "…".to_owned(),
        }
    }

    fn is_c(&self) -> bool {
        let language = self.die.as_ref().map(|die| die.unit.language);
        matches!(
            language,
            Some(DW_LANG_C89 | DW_LANG_C | DW_LANG_C99 | DW_LANG_C11 | DW_LANG_C17)
        )
    }

    /// The language of its source.
    pub(crate) fn language(&self) -> Option<gimli::DwLang> {
        Some(self.die.as_ref()?.unit.language)
    }

    /// The name of an enumerator.
    pub(crate) fn enumerator(&self, value: u64, size: u64) -> Option<String> {
        let bare = self.bare();
        let mask = mask(size);
        let all = bare.die.as_ref()?.children().into_iter();
        let mut same = all.filter(|(child, tag)| {
            *tag == DW_TAG_enumerator
                && child
                    .number(DW_AT_const_value)
                    .is_some_and(|v| v & mask == value & mask)
        });
        self.units.name(&same.next()?.0)
    }

    /// The type argument for this parameter of a generic type.
    pub(crate) fn parameter(&self, name: &str) -> Option<Self> {
        let bare = self.bare();
        let all = bare.die.as_ref()?.children().into_iter();
        let mut named = all.filter(|(die, tag)| {
            *tag == DW_TAG_template_type_parameter
                && self.units.name(die).is_some_and(|own| own == name)
        });
        Some(bare.inner(&named.next()?.0))
    }

    /// Whether C++ passes it by reference to a copy.
    pub(crate) fn by_reference(&self) -> bool {
        self.by_reference_within(8)
    }

    fn by_reference_within(&self, depth: usize) -> bool {
        let bare = self.bare();
        let Some((die, depth)) = bare.die.as_ref().zip(depth.checked_sub(1)) else {
            return false;
        };
        match die.attr(DW_AT_calling_convention) {
            Some(AttributeValue::CallingConvention(DW_CC_pass_by_reference)) => return true,
            Some(AttributeValue::CallingConvention(DW_CC_pass_by_value)) => return false,
            _ => {}
        }
        if bare.is_c() || !matches!(bare.shape(), Shape::Class) {
            return false;
        }
        // Before DWARF 5: look for members that make it not trivially copyable.
        let destroyed = die.children().iter().any(|(child, tag)| {
            *tag == DW_TAG_subprogram
                && child.attr(DW_AT_artificial).is_none()
                && child.attr(DW_AT_defaulted).is_none()
                && self.units.name(child).is_some_and(|n| n.starts_with('~'))
        });
        let members = bare.members();
        let table = |m: &Member| m.name.as_ref().is_some_and(|n| n.starts_with("_vptr"));
        destroyed
            || members
                .iter()
                .any(|m| table(m) || m.of.by_reference_within(depth))
    }
}

/// A mask of this many bytes.
pub(crate) fn mask(size: u64) -> u64 {
    match size {
        0..8 => (1 << (8 * size)) - 1,
        _ => u64::MAX,
    }
}
