//! The interface of a pass: one instrumentation of translated code. It emits code around the
//! translations of guest instructions and where counted branches arrive, and describes that code to
//! the translator. A pass knows nothing of others.
//!
//! Emitted code must never change a register, guest memory or a flag that is alive, and never
//! fault, unless the pass has noted by a mark how to recover. It may spill rcx if it restores rcx
//! before anything else is emitted; the context's spill slots hold nothing across an instruction.
//! The host's signal handler takes [`relive_host::signal::TICK_LEA`] for the countdown of a tick:
//! no other pass may emit these bytes between a load and a store of rcx.
//!
//! A pass must never change positions or ticks.

use crate::arrival::Arrival;
use crate::decode::Insn;
use crate::unit::{Flow, Unit};

/// An instrumentation of translated code.
pub(crate) trait Pass {
    /// Its name in the key of kept translations.
    fn name(&self) -> &'static str;

    /// Whether it emits anything: in fragments that execute a single `step`, or in others.
    fn is_on(&self, step: bool) -> bool;

    /// The inputs of its code beside the instruction, for the key of kept translations. `None` if
    /// they mean nothing to another process: then no translation is kept or taken over.
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

    /// Whether ticks of later rounds may have been counted already in front of the code that it emits before instructions: it reads
    /// none, and the records of its exits tell how many there are ([`Unit::ahead`]).
    fn ticks_may_be_ahead(&self) -> bool {
        false
    }

    /// Emits code before an instruction. It is executed once more if the instruction faults or a
    /// pass leaves here, and the guest comes back. The fragment ends here if the code always
    /// leaves.
    fn before(&self, _unit: &mut Unit<'_>, _insn: &Insn) -> Flow {
        Flow::Continue
    }

    /// Emits a translation of its own in place of the instruction's usual one, if it has one.
    fn instead(&self, _unit: &mut Unit<'_>, _insn: &Insn) -> Option<Flow> {
        None
    }

    /// Emits code behind a copied instruction: branches and instructions that the host does have no
    /// code behind them. It is executed when the instruction is complete, once.
    fn after(&self, _unit: &mut Unit<'_>, _insn: &Insn) {}

    /// Emits code near an arrival, for jumps from there. Returns its cache address.
    fn ahead(&self, _at: &mut Arrival<'_>) -> u32 {
        0
    }

    /// Emits the code of an arrival of a counted branch; `ahead` is the result of [`Pass::ahead`].
    fn arrive(&self, _at: &mut Arrival<'_>, _ahead: u32) {}
}
