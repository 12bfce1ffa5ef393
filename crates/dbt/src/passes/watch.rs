//! The pass that checks memory accesses against watched memory, before each instruction that makes
//! some: it looks into a filter, and leaves to the host on a hit. It always leaves for an address
//! that is not plain arithmetic; the host looks at the exact addresses. Single steps are not
//! checked.
//!
//! It must never change a flag or a register or touch guest memory, and so cannot fault.

use iced_x86::UsedMemory;
use relive_host::context::off;

use super::address::{Address, Place};
use super::pass::Pass;
use crate::access::{access_kinds, used_memory};
use crate::cache_window::FILTER;
use crate::decode::Insn;
use crate::emit::{EXIT_BYTES, RCX};
use crate::exit::{Exit, ExitKind};
use crate::stop::Error;
use crate::unit::{Flow, Unit};
use crate::watched::{GRANULE, Watched, WatchedMemory};

/// Most bytes that the checks of one instruction take.
const BYTES: u32 = 640;
/// Most accesses of one instruction that are checked in line.
const IN_LINE: usize = 3;

/// The check to emit for one access.
enum Check {
    None,
    /// Leave to the host for any address.
    Always,
    /// Compute the address and look into the filter.
    Filter(Address, u64),
}

/// The pass; on while anything is watched.
#[derive(Default)]
pub(crate) struct Watch(WatchedMemory);

impl Watch {
    /// Takes over a new set of watched memory; whether it differs from the old one.
    ///
    /// # Errors
    /// The kernel refuses memory for the filter.
    pub(crate) fn set(&mut self, wanted: &[Watched]) -> Result<bool, Error> {
        self.0.set(wanted)
    }
}

impl Pass for Watch {
    fn name(&self) -> &'static str {
        "watch"
    }

    fn is_on(&self, step: bool) -> bool {
        !step && !self.0.is_empty()
    }

    /// Watched memory means nothing to another process.
    fn key(&self) -> Option<u64> {
        None
    }

    fn around_bytes(&self) -> u32 {
        BYTES
    }

    fn unrolls(&self) -> bool {
        false
    }

    fn before(&self, unit: &mut Unit<'_>, insn: &Insn) -> Flow {
        let checks: Vec<Check> = used_memory(insn)
            .iter()
            .map(|m| plan(insn, m, &self.0))
            .filter(|c| !matches!(c, Check::None))
            .collect();
        if checks.len() > IN_LINE || checks.iter().any(|c| matches!(c, Check::Always)) {
            unit.leave(Exit::new(ExitKind::Watch, unit.frag, insn.pc()));
            return Flow::End;
        }
        for c in &checks {
            if let Check::Filter(address, size) = c {
                emit(unit, insn, address, *size);
            }
        }
        Flow::Continue
    }
}

fn plan(insn: &Insn, memory: &UsedMemory, watched: &WatchedMemory) -> Check {
    let (reads, writes) = access_kinds(memory.access());
    if !(reads && watched.reads() || writes && watched.writes()) {
        return Check::None;
    }
    let size = memory.memory_size().size() as u64;
    let wide = size == 0 || size > 32;
    if insn.is_repeated() || wide {
        return Check::Always;
    }
    match Place::of(memory) {
        None => Check::Always,
        Some(Place::Fixed(at)) if watched.touches(at, size) => Check::Always,
        Some(Place::Fixed(_)) => Check::None,
        Some(Place::Computed(address)) => Check::Filter(address, size),
    }
}

fn emit(unit: &mut Unit<'_>, insn: &Insn, address: &Address, size: u64) {
    const TEMP: i32 = off::SPILL + 8;
    const SHIFT: u32 = GRANULE.trailing_zeros();
    let asm = &mut *unit.asm;
    asm.spill_rcx();
    address.emit(asm, RCX, off::SPILL);
    // No flag may change: bits are shifted left by multiplying, and right by a byte through
    // memory.
    let mut left = 8 - SHIFT;
    while left > 0 {
        let by = left.min(3);
        asm.lea_rcx(None, Some((RCX, by as u8)), 0);
        left -= by;
    }
    asm.store(TEMP, RCX);
    asm.load_word_rcx(TEMP + 1);
    // As many granules as the access can touch, one more than it is long.
    let granules = match size {
        0..=8 => 2,
        9..=24 => 4,
        _ => 8,
    };
    asm.load_filter_rcx(FILTER as i32, granules);
    let (restore, exit) = (9, EXIT_BYTES);
    asm.jrcxz(asm.here() + 2 + restore + exit);
    asm.restore_rcx();
    unit.leave(Exit::new(ExitKind::Watch, unit.frag, insn.pc()));
    unit.asm.restore_rcx();
}
