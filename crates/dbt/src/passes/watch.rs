//! The pass that checks memory accesses against watched memory, before each instruction that makes
//! some: it looks into a filter, and leaves to the host on a hit. It always leaves for an address
//! that is not plain arithmetic; the host looks at the exact addresses. Single steps are not
//! checked.
//!
//! It must never change a flag or a register or touch guest memory, and so cannot fault.

use iced_x86::{InstructionInfoFactory, Register, UsedMemory};
use relive_host::context::off;

use super::pass::Pass;
use crate::access::access_kinds;
use crate::cache_window::FILTER;
use crate::classify::{Class, gpr_number};
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
const RDX: u8 = 2;

/// The check to emit for one access.
enum Check {
    None,
    /// Leave to the host for any address.
    Always,
    /// Compute the address and look into the filter.
    Filter(Address, u64),
}

/// base + index * scale + displacement (+ FS base)
struct Address {
    base: Option<u8>,
    index: Option<(u8, u8)>,
    displacement: i32,
    /// Offset in the context of the base of its segment.
    segment: Option<i32>,
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
        if matches!(insn.class, Class::Syscall | Class::Unsupported(_)) {
            return Flow::Continue;
        }
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(&insn.iced);
        let checks: Vec<Check> = info
            .used_memory()
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
    let plain64 = |r: Register| r == Register::None || r.is_gpr64();
    let ip = matches!(memory.base(), Register::RIP | Register::EIP);
    if insn.is_repeated() || wide || !(ip || plain64(memory.base())) || !plain64(memory.index()) {
        return Check::Always;
    }
    let segment = match memory.segment() {
        Register::FS => Some(off::GUEST_FS),
        Register::GS => Some(off::GUEST_GS),
        _ => None,
    };
    let displacement = memory.displacement();
    if (ip || memory.base() == Register::None)
        && memory.index() == Register::None
        && segment.is_none()
    {
        return if watched.touches(displacement, size) {
            Check::Always
        } else {
            Check::None
        };
    }
    let Ok(displacement) = i32::try_from(displacement as i64) else {
        return Check::Always;
    };
    let index = gpr_number(memory.index()).map(|r| (r, memory.scale().trailing_zeros() as u8));
    let address = Address {
        base: gpr_number(memory.base()),
        index,
        displacement,
        segment,
    };
    Check::Filter(address, size)
}

fn emit(unit: &mut Unit<'_>, insn: &Insn, address: &Address, size: u64) {
    const TEMP: i32 = off::SPILL + 8;
    const SHIFT: u32 = GRANULE.trailing_zeros();
    let asm = &mut *unit.asm;
    asm.spill_rcx();
    asm.lea_rcx(address.base, address.index, address.displacement);
    if let Some(base) = address.segment {
        asm.store(off::SPILL, RDX);
        asm.load(RDX, base);
        asm.lea_rcx(Some(RCX), Some((RDX, 0)), 0);
        asm.load(RDX, off::SPILL);
    }
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
