//! The pass that counts ticks: one for each arrival of a tick site's branch, in a lane of the thread's
//! budget. Where a lane is empty it leaves to the host.
//!
//! Ticks belong to guest instructions: every path that takes a tick site leads through exactly one
//! arrival, or through the host, which counts by itself. Nothing here changes flags that may be
//! alive. The signal handler of the host knows the bytes of the flag-free sequence; see
//! `relive_host::signal`.

use relive_host::context::{LANES, off};

use super::pass::Pass;
use crate::arrival::Arrival;
use crate::emit::{Asm, JCC_BYTES, JRCXZ_BYTES, RCX};

/// Most bytes that a tick takes, its stub included.
const BYTES: u32 = 112;

/// The pass; always on.
pub(super) struct Ticks;

impl Pass for Ticks {
    fn name(&self) -> &'static str {
        "ticks"
    }

    fn is_on(&self, _step: bool) -> bool {
        true
    }

    fn key(&self) -> Option<u64> {
        Some(0)
    }

    fn arrival_bytes(&self) -> u32 {
        BYTES
    }

    /// A jump to the budget exit, near enough for `jrcxz`.
    fn ahead(&self, at: &mut Arrival<'_>) -> u32 {
        if at.dead.all_but_carry() {
            return 0;
        }
        let out = at.exits.add_budget(at.pc, at.dead, Asm::restore_rcx);
        let near = at.asm.here();
        at.asm.jmp(out);
        near
    }

    fn arrive(&self, at: &mut Arrival<'_>, ahead: u32) {
        if at.dead.all_but_carry() {
            by_flags(at);
        } else {
            flag_free(at, ahead);
        }
    }
}

/// The sequence where all flags but CF are dead. If CF is dead too it subtracts, which takes
/// Intel's processors two operations where a decrement takes three.
fn by_flags(at: &mut Arrival<'_>) {
    const EQUAL: u8 = 4;
    at.restore_rcx();
    let out = at.exits.add_budget(at.pc, at.dead, |_| ());
    if at.dead.all() {
        at.asm.sub_lane(lane(at), 1);
    } else {
        at.asm.dec_lane(lane(at));
    }
    at.asm.keep_whole(JCC_BYTES);
    at.asm.jcc(EQUAL, out);
}

/// The sequence that changes no flag.
fn flag_free(at: &mut Arrival<'_>, out: u32) {
    at.take_rcx();
    at.asm.load(RCX, lane(at));
    at.asm.bytes(&relive_host::signal::TICK_LEA);
    at.asm.store(lane(at), RCX);
    at.asm.keep_whole(JRCXZ_BYTES);
    at.asm.jrcxz(out);
}

/// The offset of an arrival's counter in the context.
pub(super) fn lane(at: &Arrival<'_>) -> i32 {
    off::LANES + 8 * lane_of(at.pc, at.round) as i32
}

/// The counter for arrivals at `pc`; further rounds of a loop have others. Any choice would do:
/// neighbours mostly have different ones.
pub(super) fn lane_of(pc: u64, round: usize) -> usize {
    ((pc >> 2 ^ pc >> 5) as usize + round) % LANES
}
