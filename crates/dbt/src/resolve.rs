//! Answers each exit from the cache: links and goes on, or stops with exact state.

use relive_host::context::{EXIT_FAULT, EXIT_TOLD};
use relive_host::{Context, GuestAddr, Reg, layout};

use crate::code::Code;
use crate::defect::Defect;
use crate::emit::EXIT_BYTES;
use crate::entry::Entry;
use crate::exit::{Exit, ExitKind, NONE};
use crate::guest_state::{bad_target, budget, stepped, stop, take_target};
use crate::instr_op::is_canonical;
use crate::mangle;
use crate::passes::take_back;
use crate::recover::Recovered;
use crate::stop::{Bad, Next, Stop, TrapKind};
use crate::translator::Translator;
use crate::{behind, emit, fip, xsave};

impl Translator {
    /// Answers the exit in `ctx` after a return from `enter`. Links branches and resolves
    /// misses by itself; every other exit is a [`Stop`], with the guest's state complete
    /// in the context.
    pub fn resolve(&mut self, code: &dyn Code, ctx: &mut Context) -> Next {
        let next = if ctx.exit == EXIT_FAULT {
            self.fault(code, ctx)
        } else {
            self.exit(code, ctx)
        };
        let next = next.unwrap_or_else(|defect| Next::Stop(Stop::Internal(defect)));
        if matches!(next, Next::Stop(_)) {
            ctx.forget_x87_pointers();
        }
        match self.exits.cache.settle() {
            Ok(()) => next,
            Err(error) => Next::Stop(Stop::Refused(error)),
        }
    }

    fn exit(&mut self, code: &dyn Code, ctx: &mut Context) -> Result<Next, Defect> {
        let number = ctx.exit & !EXIT_TOLD;
        let described = behind::description(ctx.exit).map(|d| {
            let kind = match d.pause {
                0 => ExitKind::Budget,
                _ => ExitKind::Pause,
            };
            Exit::new(kind, NONE, d.pc)
        });
        let record = || self.exits.all.get(number as usize)?.exit();
        let exit = described.or_else(record);
        let exit = exit.ok_or(Defect::Exit(number))?;
        self.stats.count_exit(exit.kind);
        if exit.ahead != 0 {
            take_back(ctx, self.frags.get(exit.frag).pc, exit.ahead);
        }
        let pc = GuestAddr(exit.pc);
        let next = pc.offset(u64::from(exit.len));
        let stop = match exit.kind {
            ExitKind::Link | ExitKind::LinkTicked | ExitKind::LinkCalled => {
                return Ok(self.direct(code, ctx, number, exit));
            }
            ExitKind::MissEven | ExitKind::MissOdd => {
                return Ok(self.table_miss(code, ctx, exit.kind == ExitKind::MissOdd));
            }
            ExitKind::JumpMismatch | ExitKind::ReturnMismatch => {
                let target = take_target(ctx);
                return Ok(self.mismatch(code, ctx, exit, target));
            }
            ExitKind::HashedJump => return self.hashed_miss(code, ctx, false),
            ExitKind::HashedReturn => return self.hashed_miss(code, ctx, true),
            ExitKind::ReturnLost => return self.return_lost(code, ctx),
            ExitKind::Site => {
                return Err(Defect::NoWayOut(number));
            }
            ExitKind::StepJump | ExitKind::StepReturn => return self.step_branch(code, ctx, exit),
            ExitKind::Step => return Ok(stepped(code, ctx, exit.pc)),
            ExitKind::StepTicked => {
                let used_up = ctx.count_tick();
                return Ok(if used_up {
                    budget(code, ctx, exit.pc)
                } else {
                    stepped(code, ctx, exit.pc)
                });
            }
            ExitKind::Xsave => {
                let behind = u64::from(exit.stub + EXIT_BYTES);
                return Ok(match xsave::store(code, ctx, &exit)? {
                    true if self.frags.get(exit.frag).is_step() => stepped(code, ctx, next.0),
                    true => Next::Enter(behind),
                    false => Next::Enter(behind + u64::from(emit::AHEAD_BYTES)),
                });
            }
            ExitKind::Fip => {
                fip::clear_stored(code, ctx, exit.pc)?;
                let step = self.frags.get(exit.frag).is_step();
                return Ok(if step {
                    stepped(code, ctx, next.0)
                } else {
                    self.go(code, ctx, next.0)
                });
            }
            ExitKind::Pause => {
                if ctx.count_tick() {
                    return Ok(budget(code, ctx, exit.pc));
                }
                Stop::Pause { next: pc }
            }
            ExitKind::Budget if ctx.deal_on() => return Ok(self.go(code, ctx, exit.pc)),
            ExitKind::Budget => Stop::Budget { pc },
            ExitKind::Breakpoint => Stop::Breakpoint { pc },
            ExitKind::Watch => Stop::Watch { pc },
            ExitKind::Ordered => Stop::Ordered { pc },
            ExitKind::Permission => Stop::Permission { pc },
            ExitKind::Syscall => {
                // No look ahead needed: it ends at every instruction that is not copied.
                ctx.rip = exit.pc;
                return Ok(Next::Stop(Stop::Syscall { pc, next }));
            }
            ExitKind::Instr => {
                // No look ahead needed: it ends at every instruction that is not copied.
                ctx.rip = exit.pc;
                let op = self.exits.ops[exit.aux as usize];
                return Ok(Next::Stop(Stop::Instr { op, pc, next }));
            }
            ExitKind::Int3 => Stop::Trap {
                pc,
                next,
                kind: TrapKind::Int3,
            },
            ExitKind::Int1 => Stop::Trap {
                pc,
                next,
                kind: match exit.aux {
                    4 => TrapKind::Overflow,
                    0x80 => TrapKind::Gate,
                    _ => TrapKind::Int1,
                },
            },
            ExitKind::Undefined => Stop::Trap {
                pc,
                next,
                kind: TrapKind::Undefined,
            },
            ExitKind::Unsupported => Stop::Unsupported {
                pc,
                what: mangle::unsupported_name(exit.aux),
            },
        };
        Ok(crate::guest_state::stop(code, ctx, exit.pc, stop))
    }

    /// A direct branch that is not linked yet.
    fn direct(&mut self, code: &dyn Code, ctx: &mut Context, number: u32, exit: Exit) -> Next {
        let kind = exit.kind.entry().unwrap_or(Entry::Plain);
        let found = self
            .fragment(code, exit.pc, kind)
            .and_then(|id| Ok((id, self.ensure_entry(code, id, kind)?)));
        match found {
            Ok((id, at)) => {
                self.link(number, id, at);
                if kind != Entry::Called {
                    return Next::Enter(u64::from(at));
                }
                // Its stub has left the shadow.
                let plain = u64::from(self.frags.get(id).plain());
                self.arrive(code, ctx, exit.pc, true, Ok(plain))
            }
            Err(bad) => self.arrive(code, ctx, exit.pc, kind != Entry::Plain, Err(bad)),
        }
    }

    /// Goes on at `pc` after a branch there that the host resolved: counts the tick of a
    /// tick site, then enters.
    pub(crate) fn arrive(
        &mut self,
        code: &dyn Code,
        ctx: &mut Context,
        pc: u64,
        tick: bool,
        found: Result<u64, Bad>,
    ) -> Next {
        if tick && ctx.count_tick() {
            return budget(code, ctx, pc);
        }
        match found {
            Ok(at) => Next::Enter(at),
            Err(bad) => {
                ctx.rip = pc;
                Next::Stop(bad.into())
            }
        }
    }

    /// Goes on at `pc` without a branch.
    fn go(&mut self, code: &dyn Code, ctx: &mut Context, pc: u64) -> Next {
        let found = self.entry(code, GuestAddr(pc));
        self.arrive(code, ctx, pc, false, found)
    }

    fn table_miss(&mut self, code: &dyn Code, ctx: &mut Context, odd_slot: bool) -> Next {
        let target = take_target(ctx);
        let is_return = (target & 1 == 1) != odd_slot;
        self.indirect(code, ctx, target, is_return)
    }

    /// The landing for `exit.pc` was reached through a slot that serves `pc` for jumps and `pc + 1`
    /// for returns; the lower 61 bits of the target tell which it was.
    fn mismatch(&mut self, code: &dyn Code, ctx: &mut Context, exit: Exit, target: u64) -> Next {
        self.stats.mismatches += 1;
        let slot = if exit.kind == ExitKind::JumpMismatch {
            exit.pc
        } else {
            exit.pc.wrapping_sub(1)
        };
        let is_return = (target ^ slot) << 3 != 0;
        self.indirect(code, ctx, target, is_return)
    }

    /// A branch to another target has reached the landing for `pc` (with `paired` that of the
    /// paired call before it), at the cost of a signal: it is translated anew with an exit for such
    /// branches.
    fn misled(&mut self, pc: u64, paired: bool) {
        self.stats.misled += 1;
        self.misled.insert(pc, ());
        let start = pc.wrapping_sub(paired.into());
        self.forget_code(start, start.wrapping_add(1));
    }

    /// An indirect branch to `target`, whose stack change is done.
    pub(crate) fn indirect(
        &mut self,
        code: &dyn Code,
        ctx: &mut Context,
        target: u64,
        is_return: bool,
    ) -> Next {
        let (kind, slot) = if is_return {
            (Entry::Return, target.wrapping_sub(1))
        } else {
            (Entry::Jump, target)
        };
        *(if is_return {
            &mut self.stats.return_misses
        } else {
            &mut self.stats.jump_misses
        }) += 1;
        // Much code is reached only once. A slot costs more than another miss.
        let known = self.frags.find(target);
        let free = layout::is_low(target) && self.table.is_free(slot);
        let first = if free { kind } else { Entry::Plain };
        let found = match known {
            Some(id) => Ok(id),
            None => self.translate(code, target, first, false),
        };
        let found = found.and_then(|id| {
            if free && known.is_some() {
                let landing = self.ensure_entry(code, id, kind)?;
                self.table.set(slot, u64::from(landing));
            }
            Ok(u64::from(self.frags.get(id).plain()))
        });
        self.arrive(code, ctx, target, !is_return, found)
    }

    /// A branch through the hashed table that has found no landing, or that of another target.
    fn hashed_miss(
        &mut self,
        code: &dyn Code,
        ctx: &mut Context,
        is_return: bool,
    ) -> Result<Next, Defect> {
        take_target(ctx);
        let target = ctx.target;
        let site = self.exits.all.get(ctx.site as usize);
        let site = site.ok_or(Defect::Branch(ctx.site))?;
        if !is_canonical(target) && !self.is_alias(target, is_return) {
            let pc = site.pc;
            return bad_target(code, ctx, pc, target);
        }
        let kind = if is_return {
            self.stats.return_misses += 1;
            Entry::HashedReturn
        } else {
            self.stats.jump_misses += 1;
            Entry::HashedJump
        };
        let found = self.fragment(code, target, kind).and_then(|id| {
            let landing = self.ensure_entry(code, id, kind)?;
            self.hashed.set(is_return, target, u64::from(landing));
            Ok(u64::from(self.frags.get(id).plain()))
        });
        Ok(self.arrive(code, ctx, target, !is_return, found))
    }

    /// Whether the branch table takes a target for another address: see the limits at the head of
    /// the crate. Branches that do not use the table act the same.
    pub(crate) fn is_alias(&self, target: u64, is_return: bool) -> bool {
        let alias = (target.wrapping_sub(u64::from(is_return))) << 3 >> 3;
        self.table.is_mapped(alias)
    }

    /// The branch at `pc` has been seen to lead out of the low window: from now on it goes
    /// through the hashed table.
    pub(crate) fn hash_branch(&mut self, pc: u64) {
        if self.hashed.need().is_ok() && self.hashed_sites.insert(pc, ()).is_none() {
            self.forget_code(pc, pc.wrapping_add(1));
        }
    }

    fn step_branch(
        &mut self,
        code: &dyn Code,
        ctx: &mut Context,
        exit: Exit,
    ) -> Result<Next, Defect> {
        let target = take_target(ctx);
        if !is_canonical(target) {
            return bad_target(code, ctx, exit.pc, target);
        }
        if exit.kind == ExitKind::StepJump && ctx.count_tick() {
            return Ok(budget(code, ctx, target));
        }
        Ok(stepped(code, ctx, target))
    }

    fn fault(&mut self, code: &dyn Code, ctx: &mut Context) -> Result<Next, Defect> {
        match self.recover(ctx)? {
            Recovered::Guest(pc) => {
                self.stats.guest_faults += 1;
                Ok(stop(code, ctx, pc, Stop::Fault { pc: GuestAddr(pc) }))
            }
            Recovered::Miss { pc, target, .. } if !is_canonical(target) => {
                bad_target(code, ctx, pc, target)
            }
            Recovered::Miss {
                pc,
                target,
                is_return,
            } => {
                self.stats.table_faults += 1;
                if !layout::is_low(target) {
                    self.hash_branch(pc);
                }
                Ok(self.indirect(code, ctx, target, is_return))
            }
            Recovered::Hashed { is_return } => {
                self.stats.stale_entries += 1;
                self.hashed_miss(code, ctx, is_return)
            }
            Recovered::Stale { pc, kind } => {
                self.stats.stale_entries += 1;
                let found = self.entry(code, GuestAddr(pc));
                Ok(self.arrive(code, ctx, pc, kind.is_counted(), found))
            }
            Recovered::Called { pc, target } => self.called_without_shadow(code, ctx, pc, target),
            Recovered::Return { pc, target } => {
                self.need_shadow(ctx.reg(Reg::Rsp).wrapping_sub(8), pc);
                self.return_to(code, ctx, pc, target)
            }
            Recovered::Landed => self.return_lost(code, ctx),
            Recovered::Misled { pc, target, exit } => {
                self.misled(pc, exit.is_none());
                match exit {
                    Some(exit) => Ok(self.mismatch(code, ctx, exit, target)),
                    None => self.return_to(code, ctx, ctx.return_pc.into(), target),
                }
            }
        }
    }
}
