//! The members of classes, and the variants of Rust enums.

#![expect(non_upper_case_globals, reason = "DWARF's constants have its names")]

use gimli::DwTag;
use gimli::constants::*;

use super::{MOST_MEMBERS, Member, Type, Variants, mask};
use crate::units::Die;

impl Type {
    /// Members of a class, including base classes.
    pub(crate) fn members(&self) -> Vec<Member> {
        let bare = self.bare();
        let Some(die) = &bare.die else {
            return Vec::new();
        };
        let all = die.children().into_iter();
        all.filter(|(_, tag)| matches!(*tag, DW_TAG_member | DW_TAG_inheritance))
            .filter_map(|(child, tag)| bare.member(&child, tag))
            .take(MOST_MEMBERS)
            .collect()
    }

    fn member(&self, die: &Die, tag: DwTag) -> Option<Member> {
        // Static members are variables; virtual bases are found through tables only.
        if die.attr(DW_AT_external).is_some() || die.attr(DW_AT_virtuality).is_some() {
            return None;
        }
        let offset = match die.attr(DW_AT_data_member_location) {
            None => 0,
            Some(_) => die.number(DW_AT_data_member_location)?,
        };
        let of = self.inner(die);
        let bits = die.number(DW_AT_bit_size).and_then(|size| {
            let first = match die.number(DW_AT_data_bit_offset) {
                Some(first) => first,
                // DWARF 3 counts from the most significant bit of the storage unit.
                None => {
                    let unit = die.number(DW_AT_byte_size).or_else(|| of.size())?;
                    let from = die.number(DW_AT_bit_offset).unwrap_or(0);
                    (8 * unit).checked_sub(from.checked_add(size)?)?
                }
            };
            Some((first, size))
        });
        let (offset, bits) = match bits {
            Some((first, size)) => (offset.checked_add(first / 8)?, Some((first % 8, size))),
            None => (offset, None),
        };
        let name = (tag == DW_TAG_member)
            .then(|| self.units.name(die))
            .flatten();
        Some(Member {
            name: name.filter(|name| !name.is_empty()),
            offset,
            of,
            bits,
        })
    }

    /// The variant part of a Rust enum (DWARF 5, 5.7.10), and the member that selects a variant.
    fn variant_part(&self) -> Option<(Die, Option<Member>)> {
        let mut all = self.die.as_ref()?.children().into_iter();
        let (part, _) = all.find(|(_, tag)| *tag == DW_TAG_variant_part)?;
        let discriminant = part
            .attr(DW_AT_discr)
            .and_then(|to| self.units.follow(&part.unit, to))
            .and_then(|die| self.member(&die, DW_TAG_member));
        Some((part, discriminant))
    }

    /// The variant of a Rust enum that a discriminant selects. `read` gets an offset and a number
    /// of bytes.
    pub(crate) fn variant(&self, read: &dyn Fn(u64, u64) -> Option<u64>) -> Option<Member> {
        let bare = self.bare();
        let (part, discriminant) = bare.variant_part()?;
        let chosen = discriminant.and_then(|d| {
            let size = d.of.size()?;
            Some((read(d.offset, size)?, mask(size)))
        });
        let mut other = None;
        for (variant, _) in part.children().iter().filter(|(_, t)| *t == DW_TAG_variant) {
            let member = || {
                let (die, tag) = variant
                    .children()
                    .into_iter()
                    .find(|(_, t)| *t == DW_TAG_member)?;
                bare.member(&die, tag)
            };
            match (variant.number(DW_AT_discr_value), chosen) {
                (Some(value), Some((is, mask))) if value & mask == is & mask => return member(),
                (None, _) => other = member(),
                _ => {}
            }
        }
        other
    }

    /// The variants of a Rust enum. No value selects the default one.
    pub(crate) fn variants(&self) -> Option<Variants> {
        let bare = self.bare();
        let (part, discriminant) = bare.variant_part()?;
        let mut found = Vec::new();
        for (variant, _) in part.children().iter().filter(|(_, t)| *t == DW_TAG_variant) {
            let mut inside = variant.children().into_iter();
            let (die, tag) = inside.find(|(_, t)| *t == DW_TAG_member)?;
            let chosen = variant.attr(DW_AT_discr_value).is_some()
                || variant.attr(DW_AT_discr_list).is_some();
            found.push((chosen, bare.member(&die, tag)?));
        }
        Some((discriminant, found))
    }

    /// Whether its content depends on its value, as in a Rust enum.
    pub(crate) fn has_variants(&self) -> bool {
        self.bare().variant_part().is_some()
    }
}
