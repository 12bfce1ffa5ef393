//! The passes: all instrumentations of translated code, and the one place that chooses among them.
//!
//! The translator asks the whole set, never a single pass. Hooks are called in the order of the
//! list here. Passes that leave to the host come first: the code of others before an instruction is
//! then not executed in vain. The set must never depend on anything but options and settings of the
//! translator's user: the key of kept translations names the passes that are on.

#[cfg(test)]
mod accesses;
mod address;
mod order;
mod pass;
mod permit;
mod readings;
mod rounds;
#[cfg(test)]
pub(crate) mod tests;
mod ticks;
mod track;
mod watch;

use self::order::Order;
use self::pass::Pass;
use self::permit::Permit;
use self::readings::Readings;
pub(crate) use self::rounds::{CountedRounds, take_back};
use self::ticks::Ticks;
use self::track::Track;
use self::watch::Watch;
use crate::arrival::Arrival;
use crate::classify::Class;
use crate::code::Code;
use crate::decode::Insn;
use crate::neighbours::Neighbours;
use crate::options::Options;
use crate::unit::{Flow, Unit};

/// All passes.
pub(crate) struct Passes {
    pub(crate) watch: Watch,
    pub(crate) track: Track,
    pub(crate) permit: Permit,
    readings: Readings,
    order: Order,
    ticks: Ticks,
    #[cfg(test)]
    accesses: accesses::Accesses,
}

/// Most passes that there are.
const MOST: usize = 7;

/// Applies an expression to each pass, in order.
macro_rules! each {
    ($passes:expr, $pass:ident => $do:expr) => {{
        let $pass = &$passes.watch;
        $do;
        let $pass = &$passes.track;
        $do;
        let $pass = &$passes.permit;
        $do;
        let $pass = &$passes.readings;
        $do;
        let $pass = &$passes.order;
        $do;
        let $pass = &$passes.ticks;
        $do;
        #[cfg(test)]
        {
            let $pass = &$passes.accesses;
            $do;
        }
    }};
}

/// Addresses of the code that passes have emitted ahead of an arrival, by their number in the list.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ahead([u32; MOST]);

impl Passes {
    /// The passes that options ask for.
    pub(crate) fn chosen(options: &Options) -> Self {
        Self {
            watch: Watch::default(),
            track: Track::new(options),
            permit: Permit::default(),
            readings: Readings,
            order: Order::new(options),
            ticks: Ticks,
            #[cfg(test)]
            accesses: accesses::Accesses {
                on: options.count_accesses,
            },
        }
    }

    /// Whether an instruction is an ordered one.
    pub(crate) fn is_ordered(&self, code: &dyn Code, insn: &Insn, near: &mut Neighbours) -> bool {
        self.order.kind(code, insn, near, |_, _| ()).is_some()
    }

    /// Names the passes that are on, for the key of kept translations; `None` if translations made
    /// with them are not to be kept, and none to be taken over.
    pub(crate) fn key(&self) -> Option<Vec<u8>> {
        let mut key = Vec::new();
        each!(self, pass => if pass.is_on(false) {
            key.extend_from_slice(pass.name().as_bytes());
            key.push(0);
            key.extend_from_slice(&pass.key()?.to_le_bytes());
        });
        Some(key)
    }

    /// Most bytes that are emitted before and behind one instruction.
    pub(crate) fn around_bytes(&self, step: bool) -> u32 {
        let mut sum = 0;
        each!(self, pass => if pass.is_on(step) { sum += pass.around_bytes() });
        sum
    }

    /// Most bytes that are emitted for one arrival.
    pub(crate) fn arrival_bytes(&self, step: bool) -> u32 {
        let mut sum = 0;
        each!(self, pass => if pass.is_on(step) { sum += pass.arrival_bytes() });
        sum
    }

    /// Whether fragments may hold several rounds of a loop.
    pub(crate) fn unroll(&self) -> bool {
        let mut all = true;
        each!(self, pass => all &= pass.unrolls() || !pass.is_on(false));
        all
    }

    /// See [`Pass::before`].
    pub(crate) fn before(&self, unit: &mut Unit<'_>, insn: &Insn) -> Flow {
        let start = unit.asm.buf.len();
        each!(self, pass => if pass.is_on(unit.step) {
            let own = unit.asm.buf.len();
            if pass.before(unit, insn) == Flow::End {
                return Flow::End;
            }
            unit.may_count_ahead &= unit.asm.buf.len() == own || pass.ticks_may_be_ahead();
        });
        unit.parted(start);
        Flow::Continue
    }

    /// See [`Pass::instead`]; the first pass that emits a translation decides.
    pub(crate) fn instead(&self, unit: &mut Unit<'_>, insn: &Insn) -> Option<Flow> {
        each!(self, pass => if pass.is_on(unit.step) && let Some(flow) = pass.instead(unit, insn) {
            return Some(flow);
        });
        None
    }

    /// See [`Pass::after`].
    pub(crate) fn after(&self, unit: &mut Unit<'_>, insn: &Insn) {
        if insn.class == Class::Copy {
            let start = unit.asm.buf.len();
            each!(self, pass => if pass.is_on(unit.step) { pass.after(unit, insn) });
            unit.may_count_ahead &= unit.asm.buf.len() == start;
            unit.parted(start);
        }
    }

    /// See [`Pass::ahead`].
    pub(crate) fn ahead(&self, at: &mut Arrival<'_>) -> Ahead {
        let mut ahead = Ahead::default();
        let mut places = ahead.0.iter_mut();
        each!(self, pass => if let Some(place) = places.next() && pass.is_on(false) {
            *place = pass.ahead(at);
        });
        ahead
    }

    /// See [`Pass::arrive`].
    pub(crate) fn arrive(&self, at: &mut Arrival<'_>, ahead: Ahead) {
        let mut ahead = ahead.0.into_iter();
        each!(self, pass => if let Some(ahead) = ahead.next() && pass.is_on(false) {
            pass.arrive(at, ahead);
        });
    }
}
