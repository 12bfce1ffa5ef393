//! Precise state: from a fault somewhere in the code cache back to the guest's registers at
//! the instruction that caused it.
//!
//! Every host instruction of a fragment that can fault has a mark. A fault anywhere else is
//! an error of the translator and is reported as such, never guessed at.

use relive_host::layout::SHADOW_BELOW;
use relive_host::{Context, Reg};

use crate::classify::Class;
use crate::code::{Code, Window};
use crate::decode::{Decoded, Insn};
use crate::exits::{Exit, Kind, Record};
use crate::fragment::Entry;
use crate::records::Plain;
use crate::translator::Translator;

/// What a partly executed translation has changed already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Undo {
    /// Nothing.
    Exact,
    /// Guest rcx is spilled.
    Rcx,
    /// This register is spilled.
    Scratch(u8),
    /// The table slot of an indirect jump or call is not there: rcx is the target.
    JumpMiss,
    /// The table slot of a return is not there: rcx is the target.
    ReturnMiss,
    /// A paired call finds no shadow; all that the guest's call does is done.
    Called,
    /// The same of an indirect one: rcx is the target.
    CalledByTable,
    /// A paired return finds no shadow.
    Return,
    /// Where a paired call returns to; faults if the fragment is dead.
    Landing,
    /// A return that leads elsewhere has come to the landing at this guest address: rcx says by
    /// how much.
    Misled,
}

/// A place in a fragment that can fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    /// Offset from the fragment's plain entry.
    pub(crate) cache: u16,
    /// Offset of the guest instruction from the fragment's guest address.
    pub(crate) guest: u16,
    pub(crate) undo: Undo,
}

/// A mark as it is kept, in memory and in files.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct MarkRecord {
    pub(crate) cache: u16,
    guest: u16,
    undo: u8,
    reg: u8,
}

// SAFETY: `repr(C)`, plain numbers, no padding: two of two bytes, two of one.
unsafe impl Plain for MarkRecord {}

impl MarkRecord {
    pub(crate) fn of(mark: &Mark) -> Self {
        let (undo, reg) = match mark.undo {
            Undo::Exact => (0, 0),
            Undo::Rcx => (1, 0),
            Undo::JumpMiss => (2, 0),
            Undo::ReturnMiss => (3, 0),
            Undo::Scratch(reg) => (4, reg),
            Undo::Called => (5, 0),
            Undo::CalledByTable => (6, 0),
            Undo::Return => (7, 0),
            Undo::Landing => (8, 0),
            Undo::Misled => (9, 0),
        };
        let (cache, guest) = (mark.cache, mark.guest);
        Self {
            cache,
            guest,
            undo,
            reg,
        }
    }

    /// `None` if it is none: a file says what it likes.
    pub(crate) fn mark(&self) -> Option<Mark> {
        Some(Mark {
            cache: self.cache,
            guest: self.guest,
            undo: match self.undo {
                0 => Undo::Exact,
                1 => Undo::Rcx,
                2 => Undo::JumpMiss,
                3 => Undo::ReturnMiss,
                4 if self.reg < 16 => Undo::Scratch(self.reg),
                5 => Undo::Called,
                6 => Undo::CalledByTable,
                7 => Undo::Return,
                8 => Undo::Landing,
                9 => Undo::Misled,
                _ => return None,
            },
        })
    }
}

/// What a fault in the cache was. The context's registers are the guest's again.
pub(crate) enum Recovered {
    /// The guest instruction at this address faulted.
    Guest(u64),
    /// The branch at `pc` has no table slot.
    Miss {
        pc: u64,
        target: u64,
        is_return: bool,
    },
    /// A dead fragment for `pc` was entered.
    Stale { pc: u64, kind: Entry },
    /// The paired call at `pc` has no shadow; it has pushed its return address. `target` is that of
    /// an indirect one.
    Called { pc: u64, target: Option<u64> },
    /// The paired return at `pc` to `target` has no shadow; it has popped its return address.
    Return { pc: u64, target: u64 },
    /// A paired call has returned to a dead fragment; rcx is the return address.
    Landed,
    /// A branch to `target` has come to the landing for `pc`: that of `exit`, or if there is none one
    /// of a paired call.
    Misled {
        pc: u64,
        target: u64,
        exit: Option<Exit>,
    },
    /// The same through the hashed table, whose target has not been compared yet; rcx is not
    /// the guest's.
    Hashed { is_return: bool },
}

/// Takes the target of an indirect branch out of rcx and puts the guest's value back.
pub(crate) fn take_target(ctx: &mut Context) -> u64 {
    let target = ctx.reg(Reg::Rcx);
    ctx.set_reg(Reg::Rcx, ctx.spill_rcx);
    target
}

/// The same where rcx says how far behind `pc` it is.
fn take_difference(ctx: &mut Context, pc: u64) -> u64 {
    take_target(ctx).wrapping_add(pc)
}

fn add_rsp(ctx: &mut Context, n: u64) {
    ctx.set_reg(Reg::Rsp, ctx.reg(Reg::Rsp).wrapping_add(n));
}

impl Translator {
    /// Recovers from the fault in `ctx.fault`.
    pub(crate) fn recover(&self, ctx: &mut Context) -> Result<Recovered, String> {
        let at = ctx.fault.cache_pc;
        let lost = || format!("fault at {at:#x} in the code cache, where nothing can fault");
        let cache_pc = u32::try_from(at).map_err(|_| lost())?;
        if let Some((id, kind)) = self.frags.dead_entry(cache_pc) {
            match kind {
                Entry::Plain | Entry::Ticked => {}
                Entry::Jump | Entry::Return => drop(take_target(ctx)),
                Entry::Called => add_rsp(ctx, SHADOW_BELOW),
                Entry::HashedJump => return Ok(Recovered::Hashed { is_return: false }),
                Entry::HashedReturn => return Ok(Recovered::Hashed { is_return: true }),
            }
            return Ok(Recovered::Stale {
                pc: self.frags.get(id).pc,
                kind,
            });
        }
        let Some((fragment, mark)) = self.frags.mark_at(cache_pc) else {
            let exit = self.misled_at(cache_pc).ok_or_else(lost)?;
            let target = take_difference(ctx, exit.pc);
            return Ok(Recovered::Misled {
                pc: exit.pc,
                target,
                exit: Some(exit),
            });
        };
        let pc = fragment.pc.wrapping_add(u64::from(mark.guest));
        match mark.undo {
            Undo::Exact => {}
            Undo::Rcx => drop(take_target(ctx)),
            Undo::Scratch(reg) => ctx.gpr[usize::from(reg)] = ctx.spill[0],
            Undo::Called | Undo::CalledByTable => {
                add_rsp(ctx, SHADOW_BELOW - 8);
                let target = (mark.undo == Undo::CalledByTable).then(|| take_target(ctx));
                return Ok(Recovered::Called { pc, target });
            }
            Undo::Return => {
                add_rsp(ctx, SHADOW_BELOW + 8);
                let target = take_target(ctx);
                return Ok(Recovered::Return { pc, target });
            }
            Undo::Landing => {
                add_rsp(ctx, SHADOW_BELOW);
                return Ok(Recovered::Landed);
            }
            Undo::Misled => {
                let target = take_difference(ctx, pc);
                return Ok(Recovered::Misled {
                    pc,
                    target,
                    exit: None,
                });
            }
            Undo::JumpMiss | Undo::ReturnMiss => {
                let target = take_target(ctx);
                return Ok(Recovered::Miss {
                    pc,
                    target,
                    is_return: mark.undo == Undo::ReturnMiss,
                });
            }
        }
        Ok(Recovered::Guest(pc))
    }

    /// The exit of a landing that faults at this cache address if it is not meant.
    fn misled_at(&self, at: u32) -> Option<Exit> {
        let mut exits = (0..self.exits.all.len()).filter_map(|i| self.exits.all.get(i));
        let exit = exits.find(|exit| exit.stub == at).and_then(Record::exit);
        exit.filter(|exit| matches!(exit.kind, Kind::JumpMismatch | Kind::ReturnMismatch))
    }
}

/// Takes back what the indirect branch at `pc` has done to the stack.
pub(crate) fn undo_branch(code: &dyn Code, ctx: &mut Context, pc: u64) -> Result<(), String> {
    let mut insn = Insn::new();
    let decoded = insn.decode(&mut Window::new(code), pc);
    let popped = match (decoded, insn.class) {
        (Decoded::Insn, Class::JmpIndirect) => 0,
        (Decoded::Insn, Class::CallIndirect) => -8,
        (Decoded::Insn, Class::Ret) if insn.iced.op_count() == 1 => {
            8 + i64::from(insn.iced.immediate16())
        }
        (Decoded::Insn, Class::Ret) => 8,
        _ => return Err(format!("the branch at {pc:#x} is none any more")),
    };
    ctx.set_reg(Reg::Rsp, ctx.reg(Reg::Rsp).wrapping_sub(popped as u64));
    Ok(())
}
