//! Looks at permissions that serve several accesses: the bytes near one address that a fragment accesses before it leaves
//! translated code. Addresses are compared by the registers that they are made from, whose changes by constants are followed.
//!
//! A look ahead decides how far a look reaches, and nothing else: each access is held against the looks that have
//! been emitted. So an answer that other code would change does no harm, and fragments do not depend on the code that was
//! looked at.

mod values;

use iced_x86::{Register, UsedMemory};
use relive_host::permissions::LINE;

use self::values::Values;
use crate::access::{access_kinds, used_memory};
use crate::classify::{Class, gpr_number};
use crate::code::Window;
use crate::decode::{Decoded, Insn};
use crate::emit::RSP;

/// Most instructions of a look ahead.
const REACH: usize = 64;

/// Registers that a look may borrow.
const SCRATCH: [u8; 12] = [1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 14, 15];

/// What two addresses have in common that lie a constant apart: the origins of base and index with its scale, and the segment.
type Origin = (u32, (u32, u32), Register);

/// The place of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AccessPlace {
    origin: Origin,
    from: i64,
    to: i64,
    writes: bool,
    /// Whether it is on the stack, as rsp is now.
    on_stack: bool,
}

/// An instruction of the look ahead.
struct Planned {
    pc: u64,
    /// By the order of its operands in memory.
    accesses: Vec<Option<AccessPlace>>,
    /// The registers that it uses, a bit for each.
    uses: u16,
    /// Whether control may part here.
    parts: bool,
}

/// The looks of a fragment.
#[derive(Default)]
pub(crate) struct Looks {
    plan: Vec<Planned>,
    /// The next instruction of the plan.
    next: usize,
    /// Those emitted, as long as they hold.
    emitted: Vec<AccessPlace>,
    /// The end of the lines of its own code that have been looked at, as long as that holds; 0: none.
    fetched: u64,
    /// The scratch register of the last one.
    scratch: u8,
}

/// A look that serves an access and others behind it.
pub(crate) struct WideLook {
    /// So far before the access does it begin.
    pub(crate) before: u32,
    pub(crate) size: u64,
    pub(crate) writes: bool,
}

/// The loop that a fragment unrolls: its start, and the most instructions of all rounds.
#[derive(Clone, Copy, Default)]
pub(crate) struct Rounds {
    pub(crate) pc: u64,
    pub(crate) most: u32,
}

impl Rounds {
    /// Whether one more round has room behind `insns` instructions, which make `round` and all before.
    pub(crate) fn has_room(self, insns: u32, round: u32) -> bool {
        insns / (round + 1) * (round + 2) <= self.most
    }
}

impl Looks {
    /// The next instruction of the fragment is `insn`: all that holds in front of it is known.
    pub(crate) fn come_to(&mut self, window: Window<'_>, insn: &Insn, rounds: Rounds) {
        self.next += 1;
        let is_planned = self.plan.get(self.next - 1).map(|p| p.pc) == Some(insn.pc());
        if !is_planned {
            self.emitted.clear();
            self.fetched = 0;
            self.plan = plan(window, insn.pc(), rounds);
            self.next = 1;
        }
    }

    /// The addresses, one in each line, at which a look has to find that the bytes of this instruction may be read. The
    /// instructions of a fragment follow each other, but for those of further rounds, which were looked at in the first.
    pub(crate) fn fetch(&mut self, insn: &Insn) -> impl Iterator<Item = u64> + use<> {
        let lines = insn.pc().max(self.fetched) / LINE..insn.next().div_ceil(LINE);
        self.fetched = self.fetched.max(lines.end * LINE);
        let from = insn.pc();
        lines.map(move |line| from.max(line * LINE))
    }

    /// Whether operand `operand` of this instruction needs no look, as one has been emitted that serves it.
    pub(crate) fn serve(&self, operand: usize) -> bool {
        self.access(operand).is_some_and(|access| {
            self.emitted.iter().any(|look| {
                look.origin == access.origin
                    && look.from <= access.from
                    && access.to <= look.to
                    && (look.writes || !access.writes)
            })
        })
    }

    fn access(&self, operand: usize) -> Option<AccessPlace> {
        *self.ahead().first()?.accesses.get(operand)?
    }

    /// The rest of the plan, from this instruction on.
    fn ahead(&self) -> &[Planned] {
        &self.plan[self.next - 1..]
    }

    /// The look for operand `operand`, of `size` bytes, that serves as many accesses behind it as it can.
    pub(crate) fn reach(&mut self, operand: usize, size: u64, writes: bool, most: u64) -> WideLook {
        let Some(access) = self.access(operand) else {
            return WideLook {
                before: 0,
                size,
                writes,
            };
        };
        let mut look = access;
        let mut parted = false;
        for insn in self.ahead() {
            for other in insn.accesses.iter().flatten() {
                let (from, to) = (look.from.min(other.from), look.to.max(other.to));
                // A store that may not come would take the line from those who read it.
                let may_come = !other.writes || look.writes || !parted || look.on_stack;
                if other.origin == look.origin && to - from <= most as i64 && may_come {
                    (look.from, look.to) = (from, to);
                    look.writes |= other.writes;
                }
            }
            parted |= insn.parts;
        }
        self.emitted.push(look);
        WideLook {
            before: (access.from - look.from) as u32,
            size: (look.to - look.from) as u64,
            writes: look.writes,
        }
    }

    /// A register for a look in front of this instruction: one that is not needed soon, as what it holds goes through
    /// memory, and another one than the last, or each look would wait for the one before.
    pub(crate) fn scratch(&mut self) -> u8 {
        /// In fewer instructions memory is not read back.
        const SOON: usize = 12;
        let idle = |register: u8| {
            let used = self
                .ahead()
                .iter()
                .position(|insn| insn.uses & 1 << register != 0);
            used.map_or(SOON, |at| at.min(SOON))
        };
        let last = self.scratch;
        let from_last = |register: u8| register.wrapping_sub(last + 1) % 16;
        let best = SCRATCH
            .into_iter()
            .max_by_key(|&register| (idle(register), 16 - from_last(register)));
        self.scratch = best.unwrap_or(last);
        self.scratch
    }
}

/// The instructions that a fragment makes from `pc` on before anything but translated code is executed, or control leaves.
fn plan(mut window: Window<'_>, mut pc: u64, rounds: Rounds) -> Vec<Planned> {
    let mut values = Values::default();
    let mut plan = Vec::new();
    let mut insn = Insn::new();
    let (mut round, start) = (0, pc);
    while plan.len() < REACH && matches!(insn.decode(&mut window, pc), Decoded::Insn) {
        let all = used_memory(&insn);
        let single = |memory| place(&values, memory).filter(|_| !insn.is_repeated());
        let accesses = all.iter().map(single).collect();
        plan.push(Planned {
            pc,
            accesses,
            uses: values.pass(&insn),
            parts: insn.class != Class::Copy,
        });
        pc = insn.next();
        match insn.class {
            Class::Copy => {}
            // The numbers of rounds are those of the fragment where the plan begins with it.
            _ if start == rounds.pc
                && insn.leads_back(rounds.pc)
                && rounds.has_room(plan.len() as u32, round) =>
            {
                round += 1;
                pc = rounds.pc;
            }
            Class::Jcc | Class::Loop => {}
            _ => break,
        }
    }
    plan
}

/// The place of an access by the values of registers in front of it; `None`: not plain.
fn place(values: &Values, memory: &UsedMemory) -> Option<AccessPlace> {
    let size = memory.memory_size().size() as i64;
    let (_, writes) = access_kinds(memory.access());
    let part = |r: Register, scale: i64| match gpr_number(r) {
        Some(n) if r.is_gpr64() => {
            Some((values.of(n).origin, values.of(n).plus.wrapping_mul(scale)))
        }
        _ => matches!(r, Register::None | Register::RIP).then_some((values::NOTHING, 0)),
    };
    let scale = memory.scale();
    let base = part(memory.base(), 1)?;
    let index = part(memory.index(), scale.into())?;
    let segment = match memory.segment() {
        special @ (Register::FS | Register::GS) => special,
        _ => Register::None,
    };
    let from = (memory.displacement() as i64)
        .wrapping_add(base.1)
        .wrapping_add(index.1);
    let scale = if index.0 == values::NOTHING { 0 } else { scale };
    Some(AccessPlace {
        origin: (base.0, (index.0, scale), segment),
        from,
        to: from.checked_add(size)?,
        writes,
        on_stack: base.0 == values.of(RSP).origin && index.0 == values::NOTHING,
    })
}
