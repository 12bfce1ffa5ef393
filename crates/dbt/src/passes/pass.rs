//! What a pass is: one instrumentation of translated code. It emits code around the translations of
//! guest instructions and where counted branches arrive, and says what the translator must know of
//! that. A pass knows nothing of others.
//!
//! What a pass emits must never change a register, guest memory or a flag that is alive, and never
//! fault, unless it has noted by a mark how to recover. rcx it may spill where it gives it back
//! before anything else is emitted; the context's spill slots hold nothing across an instruction.
//! The host's signal handler takes [`relive_host::signal::TICK_LEA`] for the countdown of a tick:
//! no other pass may emit these bytes between a load and a store of rcx.
//!
//! A pass must never make positions or ticks others than they are without it.

use crate::arrival::Arrival;
use crate::decode::Insn;
use crate::unit::{Flow, Unit};

/// An instrumentation of translated code.
pub(crate) trait Pass {
    /// What it is called in the key of kept translations.
    fn name(&self) -> &'static str;

    /// Whether it emits anything: in fragments that execute a single `step`, or in others.
    fn is_on(&self, step: bool) -> bool;

    /// What its code depends on, beside the instruction, in the key of kept translations. `None` if
    /// that means nothing to another process: then no translation is kept or taken over.
    fn key(&self) -> Option<u64>;

    /// Most bytes that it emits before and behind one instruction, stubs included.
    fn around_bytes(&self) -> u32 {
        0
    }

    /// Most bytes that it emits for one arrival, stubs included.
    fn arrival_bytes(&self) -> u32 {
        0
    }

    /// Whether fragments may hold several rounds of a loop. The arrivals of further rounds, where all
    /// flags but CF are dead, have nothing [`Pass::ahead`] of them.
    fn unrolls(&self) -> bool {
        true
    }

    /// Emits what comes before an instruction. It is executed once more if the instruction
    /// faults or a pass leaves here, and the guest comes back. The fragment ends here if
    /// it always leaves.
    fn before(&self, _unit: &mut Unit<'_>, _insn: &Insn) -> Flow {
        Flow::Continue
    }

    /// Emits a translation of its own in place of the instruction's usual one, if it has one.
    fn instead(&self, _unit: &mut Unit<'_>, _insn: &Insn) -> Option<Flow> {
        None
    }

    /// Emits what comes behind an instruction that is copied: branches and instructions that the host
    /// does have nothing behind them. It is executed when the instruction is complete, once.
    fn after(&self, _unit: &mut Unit<'_>, _insn: &Insn) {}

    /// Emits what must lie near an arrival and is jumped to from there. Returns its cache address.
    fn ahead(&self, _at: &mut Arrival<'_>) -> u32 {
        0
    }

    /// Emits what is executed where a counted branch arrives; `ahead` is what [`Pass::ahead`] gave.
    fn arrive(&self, _at: &mut Arrival<'_>, _ahead: u32) {}
}
