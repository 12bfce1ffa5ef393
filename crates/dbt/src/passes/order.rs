//! The pass of ordered instructions: those that processors carry out as one indivisible access to
//! memory, and the plain accesses of sites. It counts them, and in recordings of threads that run at the same time it also holds the
//! object of the line around them (see [`relive_host::order`]), so that their order is known.
//!
//! The count goes up before the instruction. A fault takes it back and frees the object: see
//! [`Undo::Ordered`](crate::marks::Undo::Ordered). A thread must never leave translated code
//! between prologue and epilogue for any other reason; there is no tick in between.

mod hold;
mod line;
mod wait;

use relive_host::context::off;
use relive_host::order;

use super::pass::Pass;
use crate::access::is_atomic;
use crate::classify::Class;
use crate::code::Code;
use crate::decode::Insn;
use crate::emit::{Asm, RCX};
use crate::flags::DeadFlags;
use crate::mangle::{self, Around};
use crate::neighbours::Neighbours;
use crate::options::{NeighbourRule, Options, Ordered};
use crate::sites::Sites;
use crate::unit::{Flow, Unit};

/// Most bytes around an instruction that is counted.
const COUNT_BYTES: u32 = 64;

/// The pass.
pub(super) struct Order {
    how: Ordered,
    sites: Sites,
    neighbours: NeighbourRule,
}

/// Why an instruction is ordered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It is atomic.
    Atomic,
    /// It is a site, by this key.
    Site(u64),
    /// It is a plain access near an atomic instruction.
    Neighbour,
}

impl Order {
    /// # Panics
    /// Instructions are to be ordered, and there are no objects.
    pub(super) fn new(options: &Options) -> Self {
        let how = options.order;
        let has_objects = how != Ordered::Record || order::is_installed();
        assert!(has_objects, "there are no objects to order instructions by");
        Self {
            how,
            sites: options.sites,
            neighbours: options.neighbours,
        }
    }

    /// Whether an instruction is ordered, and why; `reads`: see [`Sites::find`].
    pub(super) fn kind(
        &self,
        code: &dyn Code,
        insn: &Insn,
        near: &mut Neighbours,
        mut reads: impl FnMut(u64, u64),
    ) -> Option<Kind> {
        kind(self.sites, code, insn, &mut reads).or_else(|| {
            let rule = self.neighbours;
            let is_one = rule != NeighbourRule::None && near.has(code, insn, rule, reads);
            is_one.then_some(Kind::Neighbour)
        })
    }
}

impl Pass for Order {
    fn name(&self) -> &'static str {
        "order"
    }

    fn is_on(&self, _step: bool) -> bool {
        self.how != Ordered::Off
    }

    fn key(&self) -> Option<u64> {
        let neighbours = (self.neighbours as u64) << 8;
        Some(self.how as u64 ^ neighbours ^ self.sites.digest())
    }

    fn around_bytes(&self) -> u32 {
        match self.how {
            Ordered::Off => 0,
            Ordered::Record => hold::BYTES,
            Ordered::Count => COUNT_BYTES,
            Ordered::Wait => wait::BYTES,
        }
    }

    fn instead(&self, unit: &mut Unit<'_>, insn: &Insn) -> Option<Flow> {
        let (spans, near) = (&mut unit.spans, &mut *unit.neighbours);
        let kind = self.kind(unit.code, insn, near, |from, to| add_span(spans, from, to))?;
        if let Kind::Site(site) = kind {
            unit.code.meets(site);
            unit.has_site = true;
        }
        let dead = unit.dead_flags(insn.pc());
        match self.how {
            Ordered::Record => hold::around(unit, insn, dead),
            Ordered::Wait => wait::around(unit, insn),
            Ordered::Off | Ordered::Count => {
                count(unit.asm, dead);
                mangle::copy(unit, insn, Around::Ordered { object: None });
            }
        }
        Some(Flow::Continue)
    }
}

/// Adds guest bytes to those that a fragment depends on: its instructions look at nearly the same ones.
fn add_span(spans: &mut Vec<(u64, u64)>, from: u64, to: u64) {
    let meets = |span: &&mut (u64, u64)| span.0 <= to && from <= span.1;
    match spans.iter_mut().find(meets) {
        Some(span) => *span = (span.0.min(from), span.1.max(to)),
        None => spans.push((from, to)),
    }
}

/// Whether an instruction is atomic, or one of these sites.
pub(super) fn kind(
    sites: Sites,
    code: &dyn Code,
    insn: &Insn,
    reads: impl FnOnce(u64, u64),
) -> Option<Kind> {
    match insn.class == Class::Copy && is_atomic(&insn.iced) {
        true => Some(Kind::Atomic),
        false => sites.find(code, insn, reads).map(Kind::Site),
    }
}

/// Counts one operation.
fn count(asm: &mut Asm, dead: DeadFlags) {
    const REX: Option<u8> = Some(0x48);
    if dead.all() {
        asm.gs(REX, 0x83, 0, off::OPS); // add qword gs:[OPS], 1
        asm.bytes(&[1]);
    } else if dead.all_but_carry() {
        asm.gs(REX, 0xff, 0, off::OPS); // inc qword gs:[OPS]
    } else {
        asm.spill_rcx();
        asm.load(RCX, off::OPS);
        asm.add_rcx(1);
        asm.store(off::OPS, RCX);
        asm.restore_rcx();
    }
}
