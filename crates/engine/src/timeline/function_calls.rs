//! The calls of a function in a stretch of a recording, found by replaying it. Must never take a call for ended whose return
//! has not been seen.

use std::collections::BTreeMap;

use serde::Serialize;

use super::queries::EventPlace;
use super::replay_process::{Interrupter, ReplayProcess};
use crate::failure::{Failure, Result};
use crate::guide::point::Point;
use crate::guide::protocol::{
    AtStop, Hit, ReplayStatus, RunRequest, StopEvent, StopReason, StopSet,
};
use crate::guide::register_set::Registers;

/// A call of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FunctionCall {
    /// Its first instruction.
    pub place: EventPlace,
    /// The first six integer arguments, by the System V calling convention.
    pub arguments: [u64; 6],
    /// Where it returns to.
    pub return_to: u64,
    /// The integer result; `None` if the function never returned.
    pub result: Option<u64>,
}

/// A moment of a call.
#[derive(Debug)]
pub enum Moment<'a> {
    /// It begins: the thread is at the function's first instruction.
    Begins(&'a FunctionCall),
    /// It has returned: the thread is behind it.
    Returned,
    /// It will never return: the thread has left it by longjmp(3) or an exception, or another
    /// call has taken its place on the stack.
    Left,
}

/// Looks at the calls of a function in one stretch of a recording.
pub trait CallObserver {
    /// What it has to say of a moment of a call.
    type Told: Send;

    /// Finds the function in the program that the process runs now: asked for at the beginning of the stretch, and in each
    /// new program.
    ///
    /// # Errors
    /// The function is not one, or the process cannot be read.
    fn find(&mut self, host: &mut ReplayProcess) -> Result<Callee>;

    /// Gets a moment of a call, and the process with the registers of the thread there.
    ///
    /// # Errors
    /// The process cannot be read.
    fn observe(
        &mut self,
        moment: Moment<'_>,
        host: &mut ReplayProcess,
        registers: &Registers,
    ) -> Result<Observed<Self::Told>>;
}

/// The answer of a [`CallObserver`].
#[derive(Debug)]
pub struct Observed<T> {
    /// What it has to say.
    pub told: T,
    /// The function should be looked for again, because other libraries are there.
    pub again: bool,
}

/// Where a function is in one program.
#[derive(Clone, Debug, Default)]
pub struct Callee {
    /// Its first instruction; `None` if the program has no such function.
    pub addr: Option<u64>,
    /// Functions that leave others behind: longjmp(3) and its like.
    pub jumps: Vec<u64>,
}

/// Who is told of calls.
pub(super) trait Tellable<T>: Interrupter {
    /// Takes what is told of the call of this number.
    fn tell(&mut self, number: u64, told: T);
}

/// A call that has not returned.
struct Open {
    /// `None`: it is not among those that are told.
    number: Option<u64>,
    slot: u32,
    return_to: u64,
}

const ARGUMENTS: [usize; 6] = [7, 6, 2, 1, 8, 9];
const RSP: usize = 4;
/// No longjmp goes up further: the largest stack of a first thread.
const MOST_STACK: u64 = 512 << 20;

/// Follows the calls in one stretch. It remembers only those that have not returned: at most one for each word of the stacks.
///
/// A call has returned when its thread is at its return address, its stack is as a return
/// leaves it, and the word that a return takes is still there. Where an exception's handler
/// goes on at that very place, it has made calls of its own that took that word; longjmp(3)
/// makes none, so its targets are looked at.
pub(super) struct CallFollower<'o, O> {
    observer: &'o mut O,
    callee: Callee,
    stops: StopSet,
    /// By the address of the word with the return address: a word belongs to one call.
    open: BTreeMap<u64, Open>,
    /// Those of them that are told.
    told: u64,
    count: u64,
    most: u64,
    /// The stretch is over: calls that begin now are another one's.
    behind: bool,
}

impl<'o, O: CallObserver> CallFollower<'o, O> {
    /// Of a process at the beginning of a stretch, for at most so many calls.
    pub fn of(host: &mut ReplayProcess, observer: &'o mut O, most: u64) -> Result<Self> {
        let mut follower = Self {
            observer,
            callee: Callee::default(),
            stops: StopSet {
                execs: true,
                ..StopSet::default()
            },
            open: BTreeMap::new(),
            told: 0,
            count: 0,
            most,
            behind: false,
        };
        follower.enter(host)?;
        Ok(follower)
    }

    /// Follows the calls that begin up to a place, or to the end of the process, until they have returned; `leave`: one that
    /// begins at the present position is known. `tell` gets the number of a call, from 0, and what the observer says of it.
    /// Gives where the process is then, if it has gone on.
    ///
    /// # Errors
    /// Divergence, or the observer's.
    pub fn follow<W: Tellable<O::Told>>(
        mut self,
        host: &mut ReplayProcess,
        mut until: Option<Point>,
        mut leave: bool,
        tell: &mut W,
    ) -> Result<Option<ReplayStatus>> {
        let mut status = None;
        while !tell.wanted() && (self.told > 0 || (self.count < self.most && !self.behind)) {
            let run = RunRequest {
                until,
                search: AtStop::Stop,
                leave,
                ..RunRequest::to_the_end()
            };
            let ran = host.run(&run, &self.stops, tell)?;
            status = Some(ran.status);
            let is_over = until == Some(ran.status.point);
            if is_over {
                (self.behind, until) = (true, None);
            }
            match ran.why {
                StopReason::Hit(hit) => {
                    self.meets(hit, &ran.status, host, tell)?;
                    leave = true;
                }
                StopReason::Until if is_over => leave = false,
                StopReason::Interrupted => break,
                StopReason::Ended if until.is_none() => break,
                why => {
                    return Err(Failure::internal(format!(
                        "calls were followed up to {until:?}, and the replay stopped at {}: {why:?}",
                        ran.status.point
                    )));
                }
            }
        }
        Ok(status)
    }

    /// A thread is at one of the places.
    fn meets<W: Tellable<O::Told>>(
        &mut self,
        hit: Hit,
        status: &ReplayStatus,
        host: &mut ReplayProcess,
        tell: &mut W,
    ) -> Result<()> {
        let Some(registers) = host.registers(hit.slot)? else {
            return Ok(());
        };
        if hit.what == StopEvent::Exec {
            // The stack is gone, and so is the code.
            for call in std::mem::take(&mut self.open).into_values() {
                self.ends(&call, Moment::Left, host, &registers, tell)?;
            }
            return self.enter(host);
        }
        let rsp = registers.gpr[RSP];
        let returned = rsp.wrapping_sub(8);
        if self
            .open
            .get(&returned)
            .is_some_and(|o| o.return_to == hit.pc)
            && word(host, returned)? == hit.pc
            && let Some(call) = self.open.remove(&returned)
        {
            self.ends(&call, Moment::Returned, host, &registers, tell)?;
        }
        if self.callee.jumps.contains(&hit.pc) {
            let to = jump_target(host, &registers)?;
            let left = |at: u64, o: &Open| o.slot == hit.slot && (rsp..to).contains(&at);
            let gone: Vec<u64> = self
                .open
                .iter()
                .filter(|(at, o)| left(**at, o))
                .map(|(at, _)| *at)
                .collect();
            for at in gone {
                if let Some(call) = self.open.remove(&at) {
                    self.ends(&call, Moment::Left, host, &registers, tell)?;
                }
            }
        }
        match self.callee.addr == Some(hit.pc) {
            true => self.begins(hit, status, host, &registers, tell),
            false => Ok(()),
        }
    }

    /// A thread is at the function's first instruction.
    fn begins<W: Tellable<O::Told>>(
        &mut self,
        hit: Hit,
        status: &ReplayStatus,
        host: &mut ReplayProcess,
        registers: &Registers,
        tell: &mut W,
    ) -> Result<()> {
        let rsp = registers.gpr[RSP];
        let return_to = word(host, rsp)?;
        let is_told = self.count < self.most && !self.behind;
        let call = Open {
            number: is_told.then_some(self.count),
            slot: hit.slot,
            return_to,
        };
        if let Some(before) = self.open.insert(rsp, call) {
            self.ends(&before, Moment::Left, host, registers, tell)?;
        }
        if !is_told {
            return Ok(());
        }
        let call = FunctionCall {
            place: EventPlace::of(status),
            arguments: ARGUMENTS.map(|r| registers.gpr[r]),
            return_to,
            result: None,
        };
        let observed = self
            .observer
            .observe(Moment::Begins(&call), host, registers)?;
        tell.tell(self.count, observed.told);
        self.count += 1;
        self.told += 1;
        if observed.again {
            self.callee = self.observer.find(host)?;
            self.stop_there();
        }
        // Return addresses stay breakpoints: there are as many as places that call.
        let all = &mut self.stops.breakpoints;
        if let Err(i) = all.binary_search(&return_to) {
            all.insert(i, return_to);
        }
        Ok(())
    }

    /// A call is over.
    fn ends<W: Tellable<O::Told>>(
        &mut self,
        call: &Open,
        moment: Moment<'_>,
        host: &mut ReplayProcess,
        registers: &Registers,
        tell: &mut W,
    ) -> Result<()> {
        let Some(number) = call.number else {
            return Ok(());
        };
        self.told -= 1;
        let observed = self.observer.observe(moment, host, registers)?;
        tell.tell(number, observed.told);
        Ok(())
    }

    /// Finds the function in the program that runs, and stops there from now on.
    fn enter(&mut self, host: &mut ReplayProcess) -> Result<()> {
        self.callee = self.observer.find(host)?;
        self.stops.breakpoints.clear();
        self.stop_there();
        Ok(())
    }

    fn stop_there(&mut self) {
        let all = self.callee.jumps.iter().copied().chain(self.callee.addr);
        let breakpoints = &mut self.stops.breakpoints;
        breakpoints.extend(all);
        breakpoints.sort_unstable();
        breakpoints.dedup();
    }
}

/// The stack pointer that longjmp(3) is about to set: it is the seventh word of its buffer,
/// in the C library of GNU scrambled with a word of the thread's own (`PTR_MANGLE`). If neither
/// reading is one of this stack, nothing is known to be left.
fn jump_target(host: &mut ReplayProcess, registers: &Registers) -> Result<u64> {
    let kept = word(host, registers.gpr[7].wrapping_add(48))?;
    let guard = word(host, registers.fs_base.wrapping_add(0x30))?;
    let stack = |at: u64| {
        let above = at.wrapping_sub(registers.gpr[RSP]);
        above < MOST_STACK && at.is_multiple_of(8)
    };
    let readings = [kept.rotate_right(0x11) ^ guard, kept];
    Ok(readings.into_iter().find(|at| stack(*at)).unwrap_or(0))
}

fn word(host: &mut ReplayProcess, addr: u64) -> Result<u64> {
    let bytes = host.read(addr, 8)?;
    Ok(bytes.try_into().map_or(0, u64::from_le_bytes))
}
