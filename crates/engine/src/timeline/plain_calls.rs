//! The calls of the function at an address, from where a debugger stands on. Must never hold the process up for names: the
//! debugger has its own.

use super::function_calls::{
    CallFollower, CallObserver, Callee, FunctionCall, Moment, Observed, Tellable,
};
use super::present::Timeline;
use super::replay_process::{Interrupter, ReplayProcess};
use crate::failure::Result;
use crate::guide::register_set::Registers;

/// The function at an address, whatever program runs.
struct AtAddress(u64);

/// A moment of a call of it.
enum PlainMoment {
    Begins(FunctionCall),
    Returned(u64),
    Left,
}

impl CallObserver for AtAddress {
    type Told = PlainMoment;

    fn find(&mut self, _: &mut ReplayProcess) -> Result<Callee> {
        Ok(Callee {
            addr: Some(self.0),
            jumps: Vec::new(),
        })
    }

    fn observe(
        &mut self,
        moment: Moment<'_>,
        _: &mut ReplayProcess,
        registers: &Registers,
    ) -> Result<Observed<PlainMoment>> {
        let told = match moment {
            Moment::Begins(call) => PlainMoment::Begins(*call),
            Moment::Returned => PlainMoment::Returned(registers.gpr[0]),
            Moment::Left => PlainMoment::Left,
        };
        Ok(Observed { told, again: false })
    }
}

/// Holds all calls.
struct AllCalls<'w> {
    all: Vec<FunctionCall>,
    wanted: &'w mut dyn Interrupter,
}

impl Interrupter for AllCalls<'_> {
    fn wanted(&mut self) -> bool {
        self.wanted.wanted()
    }
}

impl Tellable<PlainMoment> for AllCalls<'_> {
    fn tell(&mut self, number: u64, told: PlainMoment) {
        match told {
            PlainMoment::Begins(call) => self.all.push(call),
            PlainMoment::Returned(result) => {
                let call = usize::try_from(number).ok();
                if let Some(call) = call.and_then(|n| self.all.get_mut(n)) {
                    call.result = Some(result);
                }
            }
            PlainMoment::Left => {}
        }
    }
}

impl Timeline {
    /// The calls of the function at `addr`, from the present position on, at most `most`.
    /// Afterwards the timeline is behind the last of them, or at the end.
    ///
    /// # Errors
    /// Divergence.
    pub fn calls(
        &mut self,
        addr: u64,
        most: u64,
        wanted: &mut dyn Interrupter,
    ) -> Result<Vec<FunctionCall>> {
        self.forget_changes();
        let mut calls = AllCalls {
            all: Vec::new(),
            wanted,
        };
        let (host, mut observer) = (&mut self.current, AtAddress(addr));
        let follower = CallFollower::of(host, &mut observer, most)?;
        if let Some(status) = follower.follow(host, None, true, &mut calls)? {
            self.status = status;
        }
        Ok(calls.all)
    }
}
