//! Paired calls and returns (`mangle/pairs.rs`) that find no shadow, or another landing there: the
//! host completes them. The guest must never see a difference from calls that are not paired.

use relive_host::addr::PAGE;
use relive_host::layout::{self, SHADOW_BELOW};
use relive_host::{Context, GuestAddr, Reg};

use crate::classify::Class;
use crate::code::{Code, Window};
use crate::decode::{Decoded, Insn};
use crate::defect::Defect;
use crate::guest_state::{bad_target, take_target};
use crate::instr_op::is_canonical;
use crate::stop::Next;
use crate::translator::Translator;

impl Translator {
    /// A paired return has reached a landing that is not its return address: its target is in rcx.
    pub(crate) fn return_lost(
        &mut self,
        code: &dyn Code,
        ctx: &mut Context,
    ) -> Result<Next, Defect> {
        let target = take_target(ctx);
        self.return_to(code, ctx, ctx.return_pc.into(), target)
    }

    /// The paired return at `pc`, whose stack change is done.
    pub(crate) fn return_to(
        &mut self,
        code: &dyn Code,
        ctx: &mut Context,
        pc: u64,
        target: u64,
    ) -> Result<Next, Defect> {
        if !is_canonical(target) && !self.is_alias(target, true) {
            return bad_target(code, ctx, pc, target);
        }
        if !layout::is_low(target) {
            self.hash_branch(pc);
        }
        Ok(self.indirect(code, ctx, target, true))
    }

    /// The paired call at `pc` has pushed its return address, and its stack has no shadow.
    pub(crate) fn called_without_shadow(
        &mut self,
        code: &dyn Code,
        ctx: &mut Context,
        pc: u64,
        target: Option<u64>,
    ) -> Result<Next, Defect> {
        self.need_shadow(ctx.reg(Reg::Rsp), pc);
        let Some(target) = target else {
            let target = call_target(code, pc)?;
            let found = self.entry(code, GuestAddr(target));
            return Ok(self.arrive(code, ctx, target, true, found));
        };
        if !is_canonical(target) && !self.is_alias(target, false) {
            return bad_target(code, ctx, pc, target);
        }
        Ok(self.indirect(code, ctx, target, false))
    }

    /// Maps a shadow for the eight bytes at `stack`. Where there can be none, the instruction at
    /// `pc` is translated anew as unpaired.
    pub(crate) fn need_shadow(&mut self, stack: u64, pc: u64) {
        self.stats.shadow_faults += 1;
        let page = |addr: u64| addr.wrapping_sub(SHADOW_BELOW) & !(PAGE - 1);
        let (first, last) = (page(stack), page(stack.wrapping_add(7)));
        if !self.shadow.provide(first) || last != first && !self.shadow.provide(last) {
            self.pairs = false;
            self.forget_code(pc, pc.wrapping_add(1));
        }
    }
}

/// The target of the direct call at `pc`.
fn call_target(code: &dyn Code, pc: u64) -> Result<u64, Defect> {
    let mut insn = Insn::new();
    match insn.decode(&mut Window::new(code), pc) {
        Decoded::Insn if insn.class == Class::Call => Ok(insn.iced.near_branch_target()),
        _ => Err(Defect::Changed("call", GuestAddr(pc))),
    }
}
