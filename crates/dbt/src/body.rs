//! The body of a fragment: the loop over its instructions, and its end. The loop knows neither
//! translations of instructions nor the code of passes.

use std::collections::BTreeSet;

use crate::classify::Class;
use crate::code::Window;
use crate::decode::{Decoded, Insn};
use crate::flags::DeadFlags;
use crate::fragments::Fragments;
use crate::mangle;
use crate::passes::{Ahead, CountedRounds, Passes};
use crate::unit::{Flow, Unit};

/// Inputs for the body of a fragment beside guest code.
pub(crate) struct Body<'t> {
    pub(crate) passes: &'t Passes,
    pub(crate) frags: &'t Fragments,
    /// Addresses where it ends; none count where it is for single-stepping.
    pub(crate) breakpoints: &'t BTreeSet<u64>,
    /// Most instructions.
    pub(crate) max: u32,
    /// Flags that may be lost at its start.
    pub(crate) dead: DeadFlags,
}

/// Size of a body.
pub(crate) struct Made {
    /// End of the guest bytes.
    pub(crate) end: u64,
    /// Guest instructions, those of further rounds too.
    pub(crate) insns: u32,
}

impl Body<'_> {
    /// Emits the body; `insn` has been decoded at its start.
    pub(crate) fn emit(
        &self,
        unit: &mut Unit<'_>,
        window: &mut Window<'_>,
        mut insn: Insn,
        mut decoded: Decoded,
    ) -> Made {
        let (pc, mut at) = (unit.pc, unit.pc);
        let mut made = Made {
            end: pc.wrapping_add(1),
            insns: 0,
        };
        // How many rounds there are behind the first, and the instructions of the first.
        let (mut number, mut round) = (0, Vec::new());
        if self.stops_at(unit, pc) {
            mangle::breakpoint(unit, pc);
            return made;
        }
        loop {
            match decoded {
                Decoded::Insn => {}
                Decoded::Undefined => {
                    mangle::undefined(unit, at);
                    made.end = made.end.max(at.wrapping_add(15));
                    return made;
                }
                Decoded::Truncated { .. } => {
                    mangle::fall_through(unit, at);
                    return made;
                }
            }
            made.insns += 1;
            at = insn.next();
            made.end = made.end.max(at);
            if self.passes.before(unit, &insn) == Flow::End {
                return made;
            }
            // Of a loop whose ticks may perhaps be counted at once.
            let is_first = number == 0 && unit.rounds.most != 0 && self.dead.all();
            if is_first
                && insn.leads_back(pc)
                && round.len() as u32 + 1 == made.insns
                && let Some(insns) = self.counted_rounds(unit, &round, &insn)
            {
                made.insns = insns;
                return made;
            }
            if insn.leads_back(pc) && unit.rounds.has_room(made.insns, number) {
                number += 1;
                mangle::leave_loop(unit, &insn);
                let mut next = unit.next_round(number as usize, self.dead);
                self.passes.arrive(&mut next, Ahead::default());
                decoded = insn.decode(window, pc);
                continue;
            }
            if is_first && unit.may_count_ahead && round.len() < CountedRounds::LONGEST {
                round.push(insn);
            }
            if self.instruction(unit, &insn) == Flow::End {
                return made;
            }
            let is_last = number > 0 && insn.leads_back(pc);
            if is_last || made.insns == self.max || self.is_end(unit, &insn) {
                mangle::fall_through(unit, at);
                return made;
            }
            decoded = insn.decode(window, at);
        }
    }

    /// Emits the branch that closes the first round of a loop and all further rounds, if their ticks may be counted at once: all
    /// instructions of the fragment then.
    fn counted_rounds(&self, unit: &mut Unit<'_>, round: &[Insn], branch: &Insn) -> Option<u32> {
        let length = round.len() as u32 + 1;
        let ticks = CountedRounds::ticks(unit, branch, length, self.max)?;
        mangle::leave_loop(unit, branch);
        unit.rounds.most = length * (u32::from(ticks) + 1);
        let mut counted = CountedRounds::begin(unit, self.dead, ticks);
        loop {
            let goes_on = counted.begin_round(unit);
            for insn in round {
                self.passes.before(unit, insn);
                self.instruction(unit, insn);
            }
            self.passes.before(unit, branch);
            if !goes_on {
                break;
            }
            counted.leave(unit, branch);
        }
        self.instruction(unit, branch);
        mangle::fall_through(unit, branch.next());
        counted.end(unit);
        Some(unit.rounds.most)
    }

    /// Emits one instruction with the code of passes around it.
    fn instruction(&self, unit: &mut Unit<'_>, insn: &Insn) -> Flow {
        let start = unit.asm.buf.len();
        let own = self.passes.instead(unit, insn);
        let flow = own.unwrap_or_else(|| mangle::translate(unit, insn));
        unit.may_count_ahead &= own.is_none() && insn.class == Class::Copy;
        if flow == Flow::Continue {
            unit.fused = (own.is_none() && insn.fuses()).then_some(start);
            self.passes.after(unit, insn);
        }
        flow
    }

    /// Whether the fragment ends behind an instruction because of the next one.
    fn is_end(&self, unit: &Unit<'_>, insn: &Insn) -> bool {
        let may_join = matches!(insn.class, Class::Jcc | Class::Call | Class::CallIndirect);
        let joins = || may_join && !unit.step && self.frags.find(insn.next()).is_some();
        self.stops_at(unit, insn.next()) || joins()
    }

    /// Whether there is a breakpoint.
    fn stops_at(&self, unit: &Unit<'_>, pc: u64) -> bool {
        !unit.step && self.breakpoints.contains(&pc)
    }
}
