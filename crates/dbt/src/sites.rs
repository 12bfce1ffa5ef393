//! Sites: plain loads and stores that are ordered like atomic instructions, because threads have been
//! seen to look at each other by them. A site is known by its place in its page and by the code from it
//! on, so that it is the same one in each process and at each address that the code is mapped at.
//!
//! Whether an instruction is a site must depend on nothing but guest bytes, its address in the page and
//! the list of sites: recording and replay count the same operations.

use iced_x86::{Instruction, InstructionInfoFactory, OpKind, Register};
use relive_host::GuestAddr;
use xxhash_rust::xxh3::xxh3_64;

use crate::access::access_kinds;
use crate::classify::{Class, gpr_number};
use crate::code::{Code, Window, fetch};
use crate::decode::{Decoded, Insn};

/// Bytes of code that a site is known by, from its instruction on.
const BYTES: u64 = 48;
/// Digits of an address in a page.
const PLACE_BITS: u32 = 12;
/// Most bytes of an access that can be ordered.
const MOST_BYTES: usize = 64;

/// The sites of a process: keys, in rising order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sites(&'static [u64]);

impl Sites {
    /// These ones, in any order.
    #[must_use]
    pub fn of(mut keys: Vec<u64>) -> Self {
        keys.sort_unstable();
        keys.dedup();
        Self(keys.leak())
    }

    /// A name for the whole list.
    pub(crate) fn digest(self) -> u64 {
        let bytes: Vec<u8> = self.0.iter().flat_map(|key| key.to_le_bytes()).collect();
        match bytes.is_empty() {
            true => 0,
            false => xxh3_64(&bytes),
        }
    }

    /// The key of an instruction, if it is one of the sites. `reads`: is told the guest bytes by which that was
    /// decided, beside the instruction's own.
    pub(crate) fn find(
        self,
        code: &dyn Code,
        insn: &Insn,
        reads: impl FnOnce(u64, u64),
    ) -> Option<u64> {
        let place = place(insn.pc());
        let first = self
            .0
            .partition_point(|&key| key >> (64 - PLACE_BITS) < place);
        let there = self.0.get(first)?;
        if there >> (64 - PLACE_BITS) != place || !is_candidate(insn) {
            return None;
        }
        reads(insn.pc(), insn.pc().wrapping_add(BYTES));
        let key = key(code, insn.pc());
        self.0.binary_search(&key).is_ok().then_some(key)
    }
}

/// The key of the instruction at `pc`; `None` if it is none that can be a site.
pub(crate) fn key_at(code: &dyn Code, pc: GuestAddr) -> Option<u64> {
    let mut insn = Insn::new();
    let decoded = insn.decode(&mut Window::new(code), pc.0);
    (matches!(decoded, Decoded::Insn) && is_candidate(&insn)).then(|| key(code, pc.0))
}

/// The place of an address in its page.
fn place(pc: u64) -> u64 {
    pc & ((1 << PLACE_BITS) - 1)
}

/// The place in the page, and a hash of the code from there on.
fn key(code: &dyn Code, pc: u64) -> u64 {
    let bytes = fetch(code, pc, BYTES as usize);
    place(pc) << (64 - PLACE_BITS) | xxh3_64(&bytes) >> PLACE_BITS
}

/// Whether an instruction can be ordered: it is copied, and makes one access by an address of plain
/// registers.
pub(crate) fn is_candidate(insn: &Insn) -> bool {
    let iced = &insn.iced;
    let memory = |i| iced.op_kind(i) == OpKind::Memory;
    insn.class == Class::Copy
        && !iced.is_string_instruction()
        && !iced.is_stack_instruction()
        && (0..iced.op_count()).any(memory)
        && has_plain_address(iced)
        && makes_one_access(iced)
}

fn has_plain_address(iced: &Instruction) -> bool {
    let (base, index) = (iced.memory_base(), iced.memory_index());
    let plain = |r: Register| r == Register::None || gpr_number(r).is_some();
    (plain(base) || matches!(base, Register::RIP | Register::EIP)) && plain(index)
}

fn makes_one_access(iced: &Instruction) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let [used] = factory.info(iced).used_memory() else {
        return false;
    };
    let bytes = used.memory_size().size();
    access_kinds(used.access()) != (false, false) && (1..=MOST_BYTES).contains(&bytes)
}
