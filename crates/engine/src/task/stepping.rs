//! A thread that has set its trap flag: one instruction at a time, each followed by its trap.

use relive_dbt::{Stop, TrapKind};
use relive_host::{GuestAddr, Reg, copy};

use super::Task;
use crate::failure::{Result, answered};
use crate::trap_flag::{TF, TrapFlag};

/// Instructions that show or change the flag.
#[derive(PartialEq, Eq)]
enum Touches {
    Nothing,
    Pushes,
    Pops,
}

fn touches(pc: u64) -> Touches {
    let is_prefix = |b: &u8| matches!(b, 0x40..=0x4f | 0x66);
    let mut byte = [0];
    // An instruction has 15 bytes at most, with its prefixes.
    for at in pc..pc.saturating_add(15) {
        if copy::read(GuestAddr(at), &mut byte).is_err() {
            break;
        }
        match byte {
            [0x9c] => return Touches::Pushes,
            [0x9d] => return Touches::Pops,
            [b] if is_prefix(&b) => {}
            _ => break,
        }
    }
    Touches::Nothing
}

/// Executes one instruction of a thread whose flag is set, by `step`, and returns its trap. A stop at an
/// instruction that needs the engine is returned as it is.
///
/// # Errors
/// The host cannot protect memory as it must.
pub fn go(task: &mut Task, step: impl FnOnce(&mut Task) -> Result<Stop>) -> Result<Stop> {
    let (pc, ticks) = (task.ctx.rip, task.ctx.ticks());
    let trap = |task: &Task| Stop::Trap {
        pc: GuestAddr(pc),
        next: GuestAddr(task.ctx.rip),
        kind: TrapKind::Step,
    };
    if task.trap_flag == TrapFlag::Due {
        task.trap_flag = TrapFlag::On;
        return Ok(trap(task));
    }
    task.mode().order().permit_step(task)?;
    let touches = touches(pc);
    let stop = step(task)?;
    let executed = match &stop {
        Stop::Stepped { .. } => true,
        // The end of the budget comes behind a branch, and before its target.
        Stop::Budget { .. } | Stop::Pause { .. } => (task.ctx.rip, task.ctx.ticks()) != (pc, ticks),
        _ => false,
    };
    if !executed {
        return Ok(stop);
    }
    match touches {
        Touches::Nothing => {}
        Touches::Pushes => show(task)?,
        // A `popf` that sets the flag again is left to the engine, and is not executed here.
        Touches::Pops => task.trap_flag = TrapFlag::Off,
    }
    Ok(trap(task))
}

/// Sets the flag in the word that `pushf` has just pushed.
fn show(task: &Task) -> Result<()> {
    let at = task.ctx.reg(Reg::Rsp) + 1;
    if let Ok([byte]) = task.read::<1>(at) {
        // Not refused: the word was written a moment ago.
        let _ = answered(task.write(at, &[byte | (TF >> 8) as u8]))?;
    }
    Ok(())
}
