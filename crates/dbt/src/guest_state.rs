//! The guest's state in the context, as it is visible at a stop: complete and exact, with dead
//! flags as zeros. A branch that its translation has partly executed is finished or undone here.

use relive_host::{Context, GuestAddr, Reg};

use crate::classify::Class;
use crate::code::{Code, Window};
use crate::decode::{Decoded, Insn};
use crate::defect::Defect;
use crate::flags;
use crate::stop::{Next, Stop};

/// Takes the target of an indirect branch out of rcx and puts the guest's value back.
pub(crate) fn take_target(ctx: &mut Context) -> u64 {
    let target = ctx.reg(Reg::Rcx);
    ctx.set_reg(Reg::Rcx, ctx.spill_rcx);
    target
}

/// Stops at `pc`. Where guest state becomes visible, flags that are dead (and may have been
/// lost by a tick) are 0.
pub(crate) fn stop(code: &dyn Code, ctx: &mut Context, pc: u64, stop: Stop) -> Next {
    ctx.rip = pc;
    ctx.rflags &= !flags::dead_among(code, pc, ctx.rflags);
    Next::Stop(stop)
}

/// The budget is used up on the way to `pc`.
pub(crate) fn budget(code: &dyn Code, ctx: &mut Context, pc: u64) -> Next {
    stop(code, ctx, pc, Stop::Budget { pc: GuestAddr(pc) })
}

/// A single step has arrived at `pc`.
pub(crate) fn stepped(code: &dyn Code, ctx: &mut Context, pc: u64) -> Next {
    stop(code, ctx, pc, Stop::Stepped { pc: GuestAddr(pc) })
}

/// The branch at `pc` leads to a non-canonical address: a fault of the branch.
pub(crate) fn bad_target(
    code: &dyn Code,
    ctx: &mut Context,
    pc: u64,
    target: u64,
) -> Result<Next, Defect> {
    undo_branch(code, ctx, pc)?;
    Ok(stop(
        code,
        ctx,
        pc,
        Stop::BadTarget {
            pc: GuestAddr(pc),
            target,
        },
    ))
}

/// Undoes the stack change of the indirect branch at `pc`.
fn undo_branch(code: &dyn Code, ctx: &mut Context, pc: u64) -> Result<(), Defect> {
    let mut insn = Insn::new();
    let decoded = insn.decode(&mut Window::new(code), pc);
    let popped = match (decoded, insn.class) {
        (Decoded::Insn, Class::JmpIndirect) => 0,
        (Decoded::Insn, Class::CallIndirect) => -8,
        (Decoded::Insn, Class::Ret) if insn.iced.op_count() == 1 => {
            8 + i64::from(insn.iced.immediate16())
        }
        (Decoded::Insn, Class::Ret) => 8,
        _ => return Err(Defect::Changed("branch", GuestAddr(pc))),
    };
    ctx.set_reg(Reg::Rsp, ctx.reg(Reg::Rsp).wrapping_sub(popped as u64));
    Ok(())
}
