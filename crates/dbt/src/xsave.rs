//! XSAVE and its family, done by the host. They store which state components are in use, and
//! leave others out; a processor may take a component for used that has its initial value,
//! depending on when the state was last saved and restored, which an interruption right before
//! the instruction can do. So what is stored here depends on values alone. It must store what
//! the processor would where that is determined (Intel SDM vol. 1, 13.7 to 13.10).

use iced_x86::Mnemonic;
use relive_host::context::XsaveArea;
use relive_host::{Context, Reg, copy, cpu};

use crate::code::{Code, Window};
use crate::decode::{Decoded, Insn};
use crate::fip;

/// State components, as bits of bitmaps.
const X87: u64 = 1;
const SSE: u64 = 1 << 1;
const AVX: u64 = 1 << 2;
/// In XCOMP_BV: the compacted format.
const COMPACTED: u64 = 1 << 63;
/// Where the header is, and where the extended components of the compacted format begin.
const HEADER: u64 = 512;
const EXTENDED: u64 = 576;
/// MXCSR after a reset, which XSAVEC takes for part of the initial state.
const MXCSR: [u8; 4] = 0x1f80_u32.to_le_bytes();

/// Does the instruction at `pc`. `false`: it faults, perhaps half-way; the processor knows best
/// how. Errors say why it is not known what it does.
pub(crate) fn store(code: &dyn Code, ctx: &Context, pc: u64) -> Result<bool, String> {
    let mut insn = Insn::new();
    let Decoded::Insn = insn.decode(&mut Window::new(code), pc) else {
        return Err(format!("the instruction at {pc:#x} is none any more"));
    };
    let base = fip::operand(&insn.iced, ctx, pc)?;
    if base.0 % 64 != 0 {
        return Ok(false);
    }
    let half = |reg| ctx.reg(reg) & 0xffff_ffff;
    let asked = cpu::xcr0() & (half(Reg::Rax) | half(Reg::Rdx) << 32);
    let mut area = ctx.vectors();
    area.settle();
    let used = area.xstate_bv();
    write_out_initial(&mut area, used);
    let stored = match insn.iced.mnemonic() {
        Mnemonic::Xsavec | Mnemonic::Xsavec64 => compacted(&area, asked, used),
        Mnemonic::Xsaveopt | Mnemonic::Xsaveopt64 => standard(&area, asked, asked & used),
        _ => standard(&area, asked, asked),
    };
    let Ok(old) = copy::read_u64(base.offset(HEADER)) else {
        return Ok(false);
    };
    let mut parts = stored.parts;
    let header = match stored.compacted {
        Some(saved) => [saved, asked | COMPACTED].map(u64::to_le_bytes).concat(),
        None => (old & !asked | used & asked).to_le_bytes().to_vec(),
    };
    parts.push((HEADER, &header));
    let put = |(offset, bytes): &(u64, &[u8])| copy::write(base.offset(*offset), bytes).is_ok();
    Ok(parts.iter().all(put))
}

/// What goes where.
struct Stored<'a> {
    parts: Vec<(u64, &'a [u8])>,
    /// The components that are there, in the compacted format.
    compacted: Option<u64>,
}

/// XSAVE and XSAVEOPT: every component has its place.
fn standard(area: &XsaveArea, asked: u64, saved: u64) -> Stored<'_> {
    let mut parts = legacy(area, saved, asked & (SSE | AVX) != 0);
    let extended = extended(saved).map(|(_, (from, to))| (from as u64, &area.0[from..to]));
    parts.extend(extended);
    Stored {
        parts,
        compacted: None,
    }
}

/// XSAVEC: components that were asked for follow each other, with room for those left out.
fn compacted(area: &XsaveArea, asked: u64, used: u64) -> Stored<'_> {
    let mut saved = asked & used;
    if area.0[24..28] != MXCSR {
        saved |= asked & SSE;
    }
    let mut parts = legacy(area, saved, saved & SSE != 0);
    let mut at = EXTENDED;
    for (i, (from, to)) in extended(asked) {
        if saved >> i & 1 == 1 {
            parts.push((at, &area.0[from..to]));
        }
        at += (to - from) as u64;
    }
    Stored {
        parts,
        compacted: Some(saved),
    }
}

/// The parts of the area that FXSAVE has, too.
fn legacy(area: &XsaveArea, saved: u64, mxcsr: bool) -> Vec<(u64, &[u8])> {
    let mut parts: Vec<(u64, &[u8])> = Vec::with_capacity(10);
    if saved & X87 != 0 {
        parts.push((0, &area.0[..24]));
        parts.push((32, &area.0[32..160]));
    }
    if mxcsr {
        parts.push((24, &area.0[24..32]));
    }
    if saved & SSE != 0 {
        parts.push((160, &area.0[160..416]));
    }
    parts
}

/// Extended components of a bitmap: number, and range in the standard format.
fn extended(components: u64) -> impl Iterator<Item = (usize, (usize, usize))> {
    let ranges = cpu::xsave_layout().ranges.into_iter().enumerate().skip(2);
    ranges.filter(move |(i, _)| components >> i & 1 == 1)
}

/// Gives components that are not in use their initial values, and MXCSR its mask.
fn write_out_initial(area: &mut XsaveArea, used: u64) {
    if used & X87 == 0 {
        area.0[..24].fill(0);
        area.0[..2].copy_from_slice(&0x37f_u16.to_le_bytes());
        area.0[32..160].fill(0);
    }
    if used & SSE == 0 {
        area.0[160..416].fill(0);
    }
    for (_, (from, to)) in extended(!used & cpu::xcr0()) {
        area.0[from..to].fill(0);
    }
    area.0[28..32].copy_from_slice(&cpu::mxcsr_mask().to_le_bytes());
}
