//! The calls of a function in a whole recording, found by replaying it. Must never take a call for ended
//! whose return has not been seen.

use std::collections::BTreeMap;

use serde::Serialize;

use super::present::{Stopped, Timeline};
use super::queries::EventPlace;
use super::replay_process::{Interrupter, ReplayProcess};
use crate::failure::Result;
use crate::guide::protocol::StopEvent;
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

/// Observes calls: gets the number of the call, counted from 0, the moment, and the process with
/// the registers of the thread there. Returns whether the functions should be looked for again,
/// because other libraries are there.
pub type CallObserver<'a> =
    dyn FnMut(u64, Moment<'_>, &mut ReplayProcess, &Registers) -> Result<bool> + 'a;

/// Where a function is in one program, see [`Timeline::each_call`].
#[derive(Clone, Debug, Default)]
pub struct Callee {
    /// Its first instruction; `None` if the program has no such function.
    pub addr: Option<u64>,
    /// Functions that leave others behind: longjmp(3) and its like.
    pub jumps: Vec<u64>,
}

/// Finds the function in the program that a process runs now.
pub type Find<'a> = dyn FnMut(&mut ReplayProcess) -> Result<Callee> + 'a;

/// A call that has not returned.
struct Open {
    number: u64,
    slot: u32,
    return_to: u64,
}

const ARGUMENTS: [usize; 6] = [7, 6, 2, 1, 8, 9];
const RSP: usize = 4;
/// No longjmp goes up further: the largest stack of a first thread.
const MOST_STACK: u64 = 512 << 20;

impl Timeline {
    /// The calls of the function at `addr`, from the present position on, at most `most`.
    /// Afterwards the timeline is behind the last of them, or at the end.
    ///
    /// # Errors
    /// Divergence.
    pub fn calls(
        &mut self,
        addr: u64,
        most: usize,
        wanted: &mut dyn Interrupter,
    ) -> Result<Vec<FunctionCall>> {
        let mut calls: Vec<FunctionCall> = Vec::new();
        let mut find = |_: &mut ReplayProcess| {
            Ok(Callee {
                addr: Some(addr),
                jumps: Vec::new(),
            })
        };
        let mut tell = |n, moment: Moment<'_>, _: &mut ReplayProcess, registers: &Registers| {
            match moment {
                Moment::Begins(call) => calls.push(*call),
                Moment::Returned => {
                    let call = usize::try_from(n).ok().and_then(|n| calls.get_mut(n));
                    if let Some(call) = call {
                        call.result = Some(registers.gpr[0]);
                    }
                }
                Moment::Left => {}
            }
            Ok(false)
        };
        self.each_call(most as u64, &mut find, wanted, &mut tell)?;
        Ok(calls)
    }

    /// Tells of the calls of a function as they happen, from the present position on, of at most
    /// `most`. `find` says where it is, at the beginning and in each new program. Only calls that
    /// have not returned are remembered: at most one for each word of the stacks.
    ///
    /// A call has returned when its thread is at its return address, its stack is as a return
    /// leaves it, and the word that a return takes is still there. Where an exception's handler
    /// goes on at that very place, it has made calls of its own that took that word; longjmp(3)
    /// makes none, so its targets are looked at.
    ///
    /// # Errors
    /// Divergence, or a failure of `tell`.
    pub fn each_call(
        &mut self,
        most: u64,
        find: &mut Find<'_>,
        wanted: &mut dyn Interrupter,
        tell: &mut CallObserver<'_>,
    ) -> Result<()> {
        let old = std::mem::take(&mut self.stops);
        let told = self.tell_calls(most, find, wanted, tell);
        self.stops = old;
        told
    }

    fn tell_calls(
        &mut self,
        most: u64,
        find: &mut Find<'_>,
        wanted: &mut dyn Interrupter,
        tell: &mut CallObserver<'_>,
    ) -> Result<()> {
        // By the address of the word with the return address: a word belongs to one call.
        let mut open: BTreeMap<u64, Open> = BTreeMap::new();
        let mut count = 0;
        let mut callee = self.enter(find)?;
        self.stops.execs = true;
        while count < most || !open.is_empty() {
            let Stopped::Hit(hit) = self.forward_only(wanted)? else {
                return Ok(());
            };
            let place = EventPlace::of(&self.status);
            let host = &mut self.current;
            let Some(registers) = host.registers(hit.slot)? else {
                continue;
            };
            if hit.what == StopEvent::Exec {
                // The stack is gone, and so is the code.
                for call in std::mem::take(&mut open).into_values() {
                    tell(call.number, Moment::Left, host, &registers)?;
                }
                callee = self.enter(find)?;
                continue;
            }
            let rsp = registers.gpr[RSP];
            let returned = rsp.wrapping_sub(8);
            if open.get(&returned).is_some_and(|o| o.return_to == hit.pc)
                && word(host, returned)? == hit.pc
                && let Some(call) = open.remove(&returned)
            {
                tell(call.number, Moment::Returned, host, &registers)?;
            }
            if callee.jumps.contains(&hit.pc) {
                let to = jump_target(host, &registers)?;
                let left = |at: u64, o: &Open| o.slot == hit.slot && (rsp..to).contains(&at);
                let gone: Vec<u64> = open
                    .iter()
                    .filter(|(at, o)| left(**at, o))
                    .map(|(at, _)| *at)
                    .collect();
                for at in gone {
                    if let Some(call) = open.remove(&at) {
                        tell(call.number, Moment::Left, host, &registers)?;
                    }
                }
            }
            if callee.addr == Some(hit.pc) && count < most {
                let return_to = word(host, rsp)?;
                let call = FunctionCall {
                    place,
                    arguments: ARGUMENTS.map(|r| registers.gpr[r]),
                    return_to,
                    result: None,
                };
                let began = Open {
                    number: count,
                    slot: hit.slot,
                    return_to,
                };
                if let Some(before) = open.insert(rsp, began) {
                    tell(before.number, Moment::Left, host, &registers)?;
                }
                let again = tell(count, Moment::Begins(&call), host, &registers)?;
                count += 1;
                if again {
                    callee = find(host)?;
                    let all = callee.jumps.iter().copied().chain(callee.addr);
                    self.stops.breakpoints.extend(all);
                    self.stops.breakpoints.sort_unstable();
                    self.stops.breakpoints.dedup();
                }
                // Return addresses stay breakpoints: there are as many as places that call.
                if let Err(i) = self.stops.breakpoints.binary_search(&return_to) {
                    self.stops.breakpoints.insert(i, return_to);
                }
            }
        }
        Ok(())
    }

    /// Finds the function in the program that runs, and stops there from now on.
    fn enter(&mut self, find: &mut Find<'_>) -> Result<Callee> {
        let callee = find(&mut self.current)?;
        let all = callee.jumps.iter().copied().chain(callee.addr);
        self.stops.breakpoints = all.collect();
        self.stops.breakpoints.sort_unstable();
        self.stops.breakpoints.dedup();
        Ok(callee)
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
