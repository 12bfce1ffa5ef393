//! Precise state: from a fault somewhere in the code cache back to the guest's registers at
//! the instruction that caused it.
//!
//! Every host instruction of a fragment that can fault has a mark. A fault anywhere else is
//! an error of the translator and is reported as such, never guessed at.

use relive_host::context::{Fault, fault_addr};
use relive_host::layout::SHADOW_BELOW;
use relive_host::{Context, GuestAddr, Reg};

use crate::defect::Defect;
use crate::entry::Entry;
use crate::exit::{Exit, ExitKind, ExitRecord};
use crate::guest_state::take_target;
use crate::marks::Undo;
use crate::passes::take_back;
use crate::translator::Translator;

/// The cause of a fault in the cache. The context's registers are the guest's again.
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
    /// The paired call at `pc` has no shadow; it has pushed its return address. `target`: that of
    /// an indirect call.
    Called { pc: u64, target: Option<u64> },
    /// The paired return at `pc` to `target` has no shadow; it has popped its return address.
    Return { pc: u64, target: u64 },
    /// A paired call has returned to a dead fragment; rcx is the return address.
    Landed,
    /// A branch to `target` has come to the landing for `pc`: that of `exit`, or without one that
    /// of a paired call.
    Misled {
        pc: u64,
        target: u64,
        exit: Option<Exit>,
    },
    /// The same through the hashed table, where the target has not been compared yet; rcx is not
    /// the guest's.
    Hashed { is_return: bool },
}

/// Takes the target of an indirect branch out of rcx, which holds its distance from `pc`, and puts
/// the guest's value back.
fn take_difference(ctx: &mut Context, pc: u64) -> u64 {
    take_target(ctx).wrapping_add(pc)
}

fn add_rsp(ctx: &mut Context, n: u64) {
    ctx.set_reg(Reg::Rsp, ctx.reg(Reg::Rsp).wrapping_add(n));
}

impl Translator {
    /// Recovers from the fault in `ctx.fault`.
    pub(crate) fn recover(&self, ctx: &mut Context) -> Result<Recovered, Defect> {
        let Ok(cache_pc) = u32::try_from(ctx.fault.cache_pc) else {
            return Err(self.unmarked(&ctx.fault));
        };
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
            let exit = self.misled_at(cache_pc);
            let exit = exit.ok_or_else(|| self.unmarked(&ctx.fault))?;
            let target = take_difference(ctx, exit.pc);
            return Ok(Recovered::Misled {
                pc: exit.pc,
                target,
                exit: Some(exit),
            });
        };
        let pc = fragment.pc.wrapping_add(u64::from(mark.guest));
        take_back(ctx, fragment.pc, mark.ahead);
        match mark.undo {
            Undo::Exact => {}
            Undo::Rcx => drop(take_target(ctx)),
            Undo::Scratch(reg) => ctx.gpr[usize::from(reg)] = ctx.spill[0],
            Undo::Ordered { object, scratch } => {
                // The signal handler has freed the object.
                ctx.take_back_operation();
                for (reg, value) in [(object, ctx.order_spill[0]), (scratch, ctx.spill[0])] {
                    if let Some(reg) = reg {
                        ctx.gpr[usize::from(reg)] = value;
                    }
                }
            }
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

    /// A fault where nothing can fault.
    fn unmarked(&self, fault: &Fault) -> Defect {
        let at = fault.cache_pc;
        let before = u32::try_from(at).ok().and_then(|at| self.frags.before(at));
        Defect::Fault {
            at,
            trap: fault.trapno,
            access: fault_addr(&fault.siginfo),
            near: GuestAddr(before.map_or(0, |fragment| fragment.pc)),
        }
    }

    /// The exit of the landing that faults at this cache address for a branch to another target.
    fn misled_at(&self, at: u32) -> Option<Exit> {
        let mut exits = (0..self.exits.all.len()).filter_map(|i| self.exits.all.get(i));
        let exit = exits
            .find(|exit| exit.stub == at)
            .and_then(ExitRecord::exit);
        exit.filter(|exit| matches!(exit.kind, ExitKind::JumpMismatch | ExitKind::ReturnMismatch))
    }
}
