//! Plain accesses near atomic instructions. Code that changes a word by atomic instructions also reads and writes it, and
//! others that belong to it, by plain ones: the load in front of a `cmpxchg`, the stamp of a place in a queue, a count of
//! those who wait. In a recording of threads that run at the same time they are ordered like atomic instructions.
//!
//! Whether an instruction is such a neighbour must depend on nothing but the guest bytes of its page, and on that nothing
//! but a system call can change these: recording and replay count the same operations.

use iced_x86::{
    Decoder, DecoderOptions, Instruction, InstructionInfoFactory, Mnemonic, OpKind, Register,
};
use relive_host::{GuestAddr, addr::PAGE};

use crate::access::{access_kinds, is_atomic};
use crate::addr_map::AddrMap;
use crate::code::{Code, fetch};
use crate::decode::Insn;
use crate::options::NeighbourRule;
use crate::sites::is_candidate;

/// Code is looked at in blocks of so many bytes.
const BLOCK: u64 = 256;
/// Instructions are near each other if not more than so many blocks, of the same page, lie from one's to the other's.
const NEAR: u64 = 1;
/// The same where they access an operand of the same form.
const SAME: u64 = 4;
/// Decoding begins so many bytes before a block: after a few instructions it is where instructions begin.
const RUN_UP: u64 = 64;
/// Most bytes of an instruction.
const INSN: u64 = 15;
/// Most bytes of a word that threads synchronise by.
const WORD: usize = 8;
/// Most bytes of a lock, and of the distance from it at which the data that it protects may be its own.
const LOCK: usize = 4;
const FIELDS: u64 = 16;

/// The form of an operand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OperandForm {
    /// At a fixed address.
    At(u64),
    /// So far from what registers say.
    From(u64),
}

/// An atomic instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct AtomicInsn {
    form: OperandForm,
    base: Register,
    /// It may be one of a lock: a small word at a plain address.
    may_lock: bool,
}

/// The instructions of a block that matter.
#[derive(Debug, Default, PartialEq, Eq)]
struct BlockContent {
    atomics: Vec<AtomicInsn>,
    /// Fixed addresses that plain instructions store to.
    stored: Vec<u64>,
}

/// What was found in the blocks that were looked at; most have nothing.
#[derive(Default)]
pub(crate) struct Neighbours(AddrMap<Option<Box<BlockContent>>>);

impl Neighbours {
    /// Whether an instruction is a plain access near an atomic one. `reads`: is told the guest bytes by which that was
    /// decided.
    pub(crate) fn has(
        &mut self,
        code: &dyn Code,
        insn: &Insn,
        rule: NeighbourRule,
        reads: impl FnOnce(u64, u64),
    ) -> bool {
        let Some(form) = word(insn).filter(|_| code.lasting(GuestAddr(insn.pc()))) else {
            return false;
        };
        let pc = insn.pc();
        let (from, to) = blocks(pc, SAME);
        let page = pc & !(PAGE - 1);
        reads(
            from.saturating_sub(RUN_UP).max(page),
            (to + INSN).min(page + PAGE),
        );
        for block in (from..to).step_by(BLOCK as usize) {
            self.0.entry(block).or_insert_with(|| find(code, block));
        }
        let mut same = self.found(pc, SAME).flat_map(|found| &found.atomics);
        let near = || self.found(pc, NEAR).flat_map(|found| &found.atomics);
        same.any(|atomic| atomic.form == form)
            || near().next().is_some()
                && match form {
                    // One that nothing near stores to is a setting.
                    OperandForm::At(at) => {
                        self.found(pc, NEAR).any(|found| found.stored.contains(&at))
                    }
                    OperandForm::From(at) => {
                        let base = insn.iced.memory_base();
                        let closely = rule == NeighbourRule::Closely;
                        !is_field(near(), base, at) || closely && !stays_field(code, pc, base, at)
                    }
                }
    }

    /// What was found in the blocks that are not more than `reach` from that of an address.
    fn found(&self, pc: u64, reach: u64) -> impl Iterator<Item = &BlockContent> {
        let (from, to) = blocks(pc, reach);
        let all = (from..to).step_by(BLOCK as usize);
        all.filter_map(|block| self.0.get(&block)?.as_deref())
    }

    /// The code of a range has changed.
    pub(crate) fn forget(&mut self, start: u64, end: u64) {
        let first = start & !(PAGE - 1);
        if end.saturating_sub(first) / BLOCK > self.0.len() as u64 {
            self.0
                .retain(|block, _| !(first..end).contains(&(block & !(PAGE - 1))));
            return;
        }
        for page in (first..end).step_by(PAGE as usize) {
            for block in (page..page + PAGE).step_by(BLOCK as usize) {
                self.0.remove(&block);
            }
        }
    }
}

/// Whether a word lies behind a lock, and is what that protects: the only atomic instructions near it by the same
/// register are those of the lock. Threads pass a lock on by its word.
fn is_field<'a>(
    near: impl Iterator<Item = &'a AtomicInsn>,
    base: Register,
    displacement: u64,
) -> bool {
    let mut lock = None;
    for atomic in near.filter(|atomic| atomic.base == base) {
        let OperandForm::From(at) = atomic.form else {
            continue;
        };
        if (displacement.wrapping_sub(at) as i64).unsigned_abs() > FIELDS {
            continue;
        }
        if !atomic.may_lock || lock.is_some_and(|lock| lock != at) {
            return false;
        }
        lock = Some(at);
    }
    lock.is_some()
}

/// Whether code near a field of a lock says nothing else of it: that its address is taken, so that others may change it by atomic
/// instructions or wait for it (the futexes of readers and writers), or that the register has another value there than where it leads to the
/// lock.
fn stays_field(code: &dyn Code, pc: u64, base: Register, displacement: u64) -> bool {
    let (from, to) = blocks(pc, NEAR);
    let mut factory = InstructionInfoFactory::new();
    let (mut locks, mut sets, mut is_taken) = (Vec::new(), Vec::new(), false);
    decoded(code, from, to, |iced| {
        let at = iced.ip();
        let leads = iced.memory_base() == base && iced.memory_index() == Register::None;
        let distance = iced.memory_displacement64().wrapping_sub(displacement) as i64;
        if leads && iced.mnemonic() == Mnemonic::Lea {
            is_taken |= distance == 0;
        } else if leads && is_atomic(iced) && distance.unsigned_abs() <= FIELDS {
            locks.push(at);
        }
        let mut used = factory.info(iced).used_registers().iter();
        let full = base.full_register();
        if used.any(|r| r.register().full_register() == full && access_kinds(r.access()).1) {
            sets.push(at);
        }
    });
    let keeps = |lock: u64| {
        !sets
            .iter()
            .any(|set| (pc.min(lock)..pc.max(lock)).contains(set))
    };
    !is_taken && locks.into_iter().any(keeps)
}

/// The blocks that are not more than `reach` from that of an address, in the same page.
fn blocks(pc: u64, reach: u64) -> (u64, u64) {
    let (own, page) = (pc & !(BLOCK - 1), pc & !(PAGE - 1));
    let from = own.saturating_sub(reach * BLOCK).max(page);
    (from, (own + (reach + 1) * BLOCK).min(page + PAGE))
}

/// The form of the word that a plain instruction accesses, if other threads may access it.
fn word(insn: &Insn) -> Option<OperandForm> {
    let size = insn.iced.memory_size().size();
    let plain = (1..=WORD).contains(&size) && is_candidate(insn);
    plain.then(|| form(&insn.iced)).flatten()
}

/// The form of an operand; `None`: it is on the stack, or by FS or GS, and so the thread's own.
fn form(iced: &Instruction) -> Option<OperandForm> {
    let (base, index) = (iced.memory_base(), iced.memory_index());
    let own = matches!(iced.memory_segment(), Register::FS | Register::GS)
        || base.full_register() == Register::RSP;
    let fixed = base == Register::None && index == Register::None;
    let at = iced.memory_displacement64();
    match iced.is_ip_rel_memory_operand() || fixed {
        _ if own => None,
        true => Some(OperandForm::At(at)),
        false => Some(OperandForm::From(at)),
    }
}

/// What matters of a block.
fn find(code: &dyn Code, block: u64) -> Option<Box<BlockContent>> {
    let mut found = BlockContent::default();
    let mut factory = InstructionInfoFactory::new();
    decoded(code, block, block + BLOCK, |iced| {
        let accesses = (0..iced.op_count()).any(|i| iced.op_kind(i) == OpKind::Memory);
        let Some(form) = accesses.then(|| form(iced)).flatten() else {
            return;
        };
        if is_atomic(iced) {
            let plain = iced.memory_index() == Register::None;
            found.atomics.push(AtomicInsn {
                form,
                base: iced.memory_base(),
                may_lock: plain && iced.memory_size().size() <= LOCK,
            });
        } else if let OperandForm::At(at) = form {
            let mut used = factory.info(iced).used_memory().iter();
            if used.any(|memory| access_kinds(memory.access()).1) {
                found.stored.push(at);
            }
        }
    });
    (found != BlockContent::default()).then(|| Box::new(found))
}

/// The instructions that begin in a range of one page. They are decoded one behind the other: data between them, and a run
/// up that was too short, order too much or too little, in each process the same.
fn decoded(code: &dyn Code, start: u64, end: u64, mut each: impl FnMut(&Instruction)) {
    let page = start & !(PAGE - 1);
    let from = start.saturating_sub(RUN_UP).max(page);
    let to = (end + INSN).min(page + PAGE);
    let bytes = fetch(code, from, (to - from) as usize);
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let pc = from + at as u64;
        if pc >= end {
            break;
        }
        let iced = Decoder::with_ip(64, rest, pc, DecoderOptions::NONE).decode();
        at += match iced.is_invalid() {
            true => 1,
            false => iced.len(),
        };
        if pc >= start {
            each(&iced);
        }
    }
}

#[cfg(test)]
mod tests;
