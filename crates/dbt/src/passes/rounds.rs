//! Rounds of an unrolled loop whose ticks are counted at once: one subtraction at the beginning of the second round, for that and all
//! that follow it in the fragment. A way out of an earlier round puts the rest back; for a fault or an exit the host does
//! ([`crate::marks::Mark::ahead`]). Where the lane has no more than these ticks one is counted, and the last round is executed
//! alone.
//!
//! Only for loops in which nothing reads ticks, or leaves to the host without telling how many are ahead: a tick that is counted and
//! not executed must never be seen.

use relive_host::Context;

use super::ticks;
use crate::arrival::Arrival;
use crate::classify::Class;
use crate::decode::Insn;
use crate::emit::{ADD_LANE_BYTES, JCC_BYTES, JMP_BYTES};
use crate::flags::DeadFlags;
use crate::looks::Looks;
use crate::mangle;
use crate::marks::MOST_AHEAD;
use crate::unit::Unit;

/// Fewer ticks are not worth it: the subtractions of neighbouring rounds would wait for each other.
const FEWEST: u32 = 3;

/// Most instructions that such a loop is unrolled to.
const UNROLLED: u32 = 64;

const NOT_EQUAL: u8 = 5;
const LESS_OR_EQUAL: u8 = 14;

/// The rounds of a fragment under construction, from the second on.
pub(crate) struct CountedRounds {
    pc: u64,
    dead: DeadFlags,
    /// The offset of the lane in which they are counted.
    lane: i32,
    /// Ticks that are counted at once.
    ticks: u8,
    /// The jump where the lane has no more than these.
    too_few: usize,
    /// Rounds that have begun.
    begun: u8,
    /// Where the last of them begins.
    last: u32,
    /// Jumps out of the loop, with the ticks that they put back.
    ways_out: Vec<(usize, u8)>,
}

/// The round whose arrival counts for all that follow.
const COUNTING: usize = 1;

/// The thread has left the loop at `pc` with ticks ahead of it.
pub(crate) fn take_back(ctx: &mut Context, pc: u64, ahead: u8) {
    ctx.take_back_ticks(ticks::lane_of(pc, COUNTING), ahead);
}

impl CountedRounds {
    /// Most instructions of a round before the branch that closes it.
    pub(crate) const LONGEST: usize = (UNROLLED / (FEWEST + 1)) as usize - 1;

    /// The ticks that may be counted at once behind the first round of a loop, of `insns` instructions, which `insn` closes: `None` if
    /// they are to be counted one by one. `max`: most instructions of the fragment. At its start all flags are dead.
    pub(crate) fn ticks(unit: &mut Unit<'_>, insn: &Insn, insns: u32, max: u32) -> Option<u8> {
        let ticks = (UNROLLED.min(max) / insns).saturating_sub(1);
        let ticks = ticks.min(MOST_AHEAD.into());
        let fits = ticks >= FEWEST && insn.class == Class::Jcc && unit.may_count_ahead;
        (fits && unit.dead_flags(insn.next()).all()).then_some(ticks as u8)
    }

    /// Emits the arrival at the second round.
    pub(crate) fn begin(unit: &mut Unit<'_>, dead: DeadFlags, ticks: u8) -> Self {
        let at: Arrival<'_> = unit.next_round(COUNTING, dead);
        let lane = ticks::lane(&at);
        at.asm.sub_lane(lane, ticks);
        at.asm.keep_whole(JCC_BYTES);
        Self {
            pc: at.pc,
            dead,
            lane,
            ticks,
            too_few: at.asm.jcc_ahead(LESS_OR_EQUAL),
            begun: 0,
            last: 0,
            ways_out: Vec::new(),
        }
    }

    /// One more round begins. Returns whether another one follows it.
    pub(crate) fn begin_round(&mut self, unit: &mut Unit<'_>) -> bool {
        self.begun += 1;
        unit.ahead = self.ticks - self.begun;
        self.last = unit.asm.here();
        let is_last = unit.ahead == 0;
        if is_last {
            // It is also come to without the rounds before it.
            unit.looks = Looks::default();
        }
        !is_last
    }

    /// Emits the branch that closes a round of which another copy follows.
    pub(crate) fn leave(&mut self, unit: &mut Unit<'_>, insn: &Insn) {
        let jump = mangle::leave_loop_ahead(unit, insn);
        self.ways_out.push((jump, unit.ahead));
    }

    /// The fragment is complete, and ends with a jump to the code behind the loop.
    pub(crate) fn end(self, unit: &mut Unit<'_>) {
        let lane = self.lane;
        let behind = unit.asm.here() - JMP_BYTES;
        for (jump, ahead) in self.ways_out {
            let put_back = unit.exits.add_code(ADD_LANE_BYTES + JMP_BYTES, |code| {
                code.add_lane(lane, ahead);
                code.jmp(behind);
            });
            unit.asm.lead(jump, put_back);
        }
        let one_by_one = unit.exits.add_budget_at(self.pc, self.dead, |stub| {
            stub.add_lane(lane, self.ticks - 1);
            stub.jcc(NOT_EQUAL, self.last);
        });
        unit.asm.lead(self.too_few, one_by_one);
    }
}
