//! The pass of readings: instructions that read a clock become calls of a routine of the host,
//! which records the value or takes it from the recording, without leaving translated code. Where
//! the routine cannot answer, the code leaves to the host.
//!
//! It must never read anything itself: the code finds the routine through the context, so that the
//! same code serves recordings and replays.

use relive_host::context::off;

use super::pass::Pass;
use crate::classify::Class;
use crate::decode::Insn;
use crate::exit::ExitKind;
use crate::instr_op::InstrOp;
use crate::unit::{Flow, Unit};

/// The pass; always on.
pub(super) struct Readings;

impl Pass for Readings {
    fn name(&self) -> &'static str {
        "readings"
    }

    fn is_on(&self, _step: bool) -> bool {
        true
    }

    fn key(&self) -> Option<u64> {
        Some(0)
    }

    fn instead(&self, unit: &mut Unit<'_>, insn: &Insn) -> Option<Flow> {
        let op = operation(insn)?;
        let routine = op.routine()?;
        let index = unit.exits.add_op(op);
        unit.asm.call_host(off::ROUTINES + 8 * routine as i32);
        unit.stop_at(insn, ExitKind::Instr, index);
        Some(Flow::Continue)
    }
}

/// The operation of an instruction whose result guest state does not determine.
fn operation(insn: &Insn) -> Option<InstrOp> {
    let op = match insn.class {
        Class::Instr => InstrOp::of(&insn.iced),
        Class::Undefined => InstrOp::of_vdso(&insn.iced),
        _ => None,
    };
    op.filter(|_| !insn.uses_gs())
}
