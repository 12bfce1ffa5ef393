//! Shadow stacks: memory at a fixed distance below guest stacks ([`SHADOW_BELOW`]), which holds the
//! host's return addresses of paired calls (`mangle/pairs.rs`).
//!
//! It is there page by page, where a stack was seen, and holds nothing but addresses where paired
//! calls return to, or [`SHADOW_MISS`]. All of the guest's memory lies where
//! shadows can be no guest memory (`layout::may_have_shadow`), or there are no paired calls
//! ([`Shadow::forbid`]): so a call with a stack pointer of any value writes a shadow or faults.

use std::collections::BTreeSet;

use relive_host::addr::PAGE;
use relive_host::layout::{self, SHADOW_BELOW, SHADOW_MISS};
use relive_host::{Context, GuestAddr, Reg, sys, window};

use crate::classify::Class;
use crate::code::{Code, Window};
use crate::decode::{Decoded, Insn};
use crate::instr_op::is_canonical;
use crate::recover::take_target;
use crate::resolve::bad_target;
use crate::stop::Next;
use crate::translator::Translator;

/// The shadows of a process.
#[derive(Default)]
pub(crate) struct Shadow {
    /// Pages that are there.
    pages: BTreeSet<u64>,
    forbidden: bool,
}

impl Shadow {
    /// Makes the page at `at` a shadow. Returns whether it is one now.
    fn provide(&mut self, at: u64) -> bool {
        let stack = at.wrapping_add(SHADOW_BELOW);
        if self.forbidden || !layout::may_have_shadow(stack, stack.saturating_add(PAGE)) {
            return false;
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let args = [at, PAGE, prot as u64, flags as u64, u64::MAX, 0];
        // SAFETY: while it is not forbidden, nothing of the guest lies there; a shadow that
        // was there is replaced by one that knows no calls.
        let ret = unsafe { sys::syscall(libc::SYS_mmap as u64, args) };
        if ret < 0 {
            return false;
        }
        // SAFETY: the page has just been mapped, and no reference to it exists.
        let slots = unsafe { std::slice::from_raw_parts_mut(at as *mut u64, PAGE as usize / 8) };
        slots.fill(SHADOW_MISS);
        self.pages.insert(at);
        true
    }

    /// Takes all shadows away. No thread may be in the cache.
    pub(crate) fn clear(&mut self) {
        for page in std::mem::take(&mut self.pages) {
            // SAFETY: a page of ours; a call or return that finds none asks the host.
            unsafe { window::release(page, PAGE) };
        }
    }

    /// There can be no shadows any more.
    pub(crate) fn forbid(&mut self) {
        self.clear();
        self.forbidden = true;
    }

    pub(crate) fn is_forbidden(&self) -> bool {
        self.forbidden
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Translator {
    /// A paired return came where it does not lead: its target is in rcx.
    pub(crate) fn return_lost(
        &mut self,
        code: &dyn Code,
        ctx: &mut Context,
    ) -> Result<Next, String> {
        let target = take_target(ctx);
        self.return_to(code, ctx, ctx.return_pc.into(), target)
    }

    /// The paired return at `pc`, whose own work is done.
    pub(crate) fn return_to(
        &mut self,
        code: &dyn Code,
        ctx: &mut Context,
        pc: u64,
        target: u64,
    ) -> Result<Next, String> {
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
    ) -> Result<Next, String> {
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

    /// Gives a shadow to the eight bytes at `stack`. Where there can be none, the instruction at
    /// `pc` is translated anew without.
    pub(crate) fn need_shadow(&mut self, stack: u64, pc: u64) {
        self.stats.shadow_faults += 1;
        let page = |addr: u64| addr.wrapping_sub(SHADOW_BELOW) & !(PAGE - 1);
        let (first, last) = (page(stack), page(stack.wrapping_add(7)));
        if !self.shadow.provide(first) || last != first && !self.shadow.provide(last) {
            self.pairs = false;
            self.invalidate(GuestAddr(pc), GuestAddr(pc.wrapping_add(1)));
        }
    }
}

/// Where the direct call at `pc` leads.
fn call_target(code: &dyn Code, pc: u64) -> Result<u64, String> {
    let mut insn = Insn::new();
    match insn.decode(&mut Window::new(code), pc) {
        Decoded::Insn if insn.class == Class::Call => Ok(insn.iced.near_branch_target()),
        _ => Err(format!("the call at {pc:#x} is none any more")),
    }
}
