//! XSAVE and its family, done by the host. They store which state components are in use, and leave
//! others out. A processor may report a component with its initial value as in use, depending on
//! when the state was last saved and restored; an interruption right before the instruction can
//! cause that. So the result here depends on values alone. It must be the processor's where that is
//! determined (Intel SDM vol. 1, 13.7 to 13.10).

use iced_x86::{Instruction, Mnemonic, Register};
use relive_host::context::XsaveArea;
use relive_host::{Context, GuestAddr, Reg, copy, cpu};

use crate::classify::gpr_number;
use crate::code::{Code, Window};
use crate::decode::{Decoded, Insn};
use crate::defect::Defect;
use crate::exit::Exit;
use crate::fip;

/// State components, as bits of bitmaps.
const X87: u64 = 1;
const SSE: u64 = 1 << 1;
const AVX: u64 = 1 << 2;
/// In XCOMP_BV: the compacted format.
const COMPACTED: u64 = 1 << 63;
/// Offset of the header.
pub(crate) const HEADER: u64 = 512;
/// Offset of the extended components in the compacted format.
const EXTENDED: u64 = 576;
/// MXCSR after a reset, which XSAVEC takes for part of the initial state.
const MXCSR: [u8; 4] = 0x1f80_u32.to_le_bytes();

/// The format that an instruction stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Standard,
    Used,
    Compacted,
}

impl Form {
    const ALL: [Self; 3] = [Self::Standard, Self::Used, Self::Compacted];

    fn of(insn: &Instruction) -> Self {
        match insn.mnemonic() {
            Mnemonic::Xsavec | Mnemonic::Xsavec64 => Self::Compacted,
            Mnemonic::Xsaveopt | Mnemonic::Xsaveopt64 => Self::Used,
            _ => Self::Standard,
        }
    }
}

/// Bits of the word of [`describe`]: form, base register, index register, scale.
const FORM: u32 = 0b11;
const BASE: (u32, u32) = (4, 1 << 8);
const INDEX: (u32, u32) = (12, 1 << 16);
const SCALE: u32 = 20;

/// Form and operand in two words, for the record of an exit. The dynamic loader executes one such
/// instruction in every first call, and the decoder's tables cost a program that translates nothing
/// more than all else at its start. `None` for unusual operands.
pub(crate) fn describe(insn: &Instruction) -> Option<(u32, u32)> {
    let form = Form::of(insn);
    let mut word = Form::ALL.iter().position(|f| *f == form)? as u32;
    let plain = !insn.has_segment_prefix() && !insn.is_ip_rel_memory_operand();
    let disp = i32::try_from(insn.memory_displacement64() as i64).ok()?;
    for (reg, (shift, there)) in [(insn.memory_base(), BASE), (insn.memory_index(), INDEX)] {
        if reg != Register::None {
            let number = gpr_number(reg).filter(|_| reg.is_gpr64())?;
            word |= u32::from(number) << shift | there;
        }
    }
    word |= insn.memory_index_scale().trailing_zeros() << SCALE;
    (plain && word != 0).then_some((word, disp as u32))
}

/// Form and address of an instruction described by [`describe`].
fn described(ctx: &Context, word: u32, disp: u32) -> (Form, GuestAddr) {
    let register = |(shift, there): (u32, u32)| match word & there {
        0 => 0,
        _ => ctx.gpr[(word >> shift & 15) as usize],
    };
    let index = register(INDEX) << (word >> SCALE & 3);
    let at = register(BASE).wrapping_add(index);
    let form = Form::ALL[(word & FORM) as usize % Form::ALL.len()];
    (form, GuestAddr(at.wrapping_add(disp as i32 as u64)))
}

/// Does the instruction of an exit. `false`: it faults, perhaps half-way; executing it then makes
/// the processor's own fault. Errors say why the instruction is not known.
pub(crate) fn store(code: &dyn Code, ctx: &Context, exit: &Exit) -> Result<bool, Defect> {
    let (form, base) = if exit.aux == 0 {
        let mut insn = Insn::new();
        let Decoded::Insn = insn.decode(&mut Window::new(code), exit.pc) else {
            return Err(Defect::Changed("instruction", GuestAddr(exit.pc)));
        };
        (
            Form::of(&insn.iced),
            fip::operand(&insn.iced, ctx, exit.pc)?,
        )
    } else {
        described(ctx, exit.aux, exit.site)
    };
    if base.0 % 64 != 0 {
        return Ok(false);
    }
    let (area, used, asked) = state(ctx);
    let stored = stored(&area, form, asked, used);
    let Ok(old) = copy::read_u64(base.offset(HEADER)) else {
        return Ok(false);
    };
    let header = match stored.compacted {
        Some(saved) => [saved, asked | COMPACTED].map(u64::to_le_bytes).concat(),
        None => (old & !asked | used & asked).to_le_bytes().to_vec(),
    };
    let mut parts = stored.parts;
    parts.push((HEADER, &header));
    let put = |(offset, bytes): &(u64, &[u8])| copy::write(base.offset(*offset), bytes).is_ok();
    Ok(parts.iter().all(put))
}

/// Offsets and lengths of the writes of such an instruction; `None`: it is of another kind.
pub(crate) fn writes(insn: &Instruction, ctx: &Context) -> Option<Vec<(u64, u64)>> {
    if !fip::is_xsave(insn) {
        return None;
    }
    let (area, used, asked) = state(ctx);
    let stored = stored(&area, Form::of(insn), asked, used);
    let header = if stored.compacted.is_some() { 16 } else { 8 };
    let parts = stored.parts.iter();
    let parts = parts.map(|(offset, bytes)| (*offset, bytes.len() as u64));
    Some(parts.chain([(HEADER, header)]).collect())
}

/// A thread's state to store, the components in use, and the requested ones.
fn state(ctx: &Context) -> (XsaveArea, u64, u64) {
    let half = |reg| ctx.reg(reg) & 0xffff_ffff;
    let asked = cpu::xcr0() & (half(Reg::Rax) | half(Reg::Rdx) << 32);
    let mut area = ctx.vectors();
    area.settle();
    let used = area.xstate_bv();
    write_out_initial(&mut area, used);
    (area, used, asked)
}

fn stored(area: &XsaveArea, form: Form, asked: u64, used: u64) -> Stored<'_> {
    match form {
        Form::Compacted => compacted(area, asked, used),
        Form::Used => standard(area, asked, asked & used),
        Form::Standard => standard(area, asked, asked),
    }
}

/// The parts to store, with their offsets.
struct Stored<'a> {
    parts: Vec<(u64, &'a [u8])>,
    /// The components present, in the compacted format.
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

/// XSAVEC: requested components follow each other, with room for those left out.
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

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    #[test]
    fn operands_are_where_the_decoder_finds_them() {
        let mut ctx = Context::new();
        for (i, reg) in (0_u64..).zip(ctx.gpr.iter_mut()) {
            *reg = 0x1000_0000_0000 + 0x1_0101 * i;
        }
        let forms: [&[u8]; 8] = [
            b"\x0f\xc7\x64\x24\x40",             // xsavec [rsp+40h]
            b"\x48\x0f\xc7\x21",                 // xsavec64 [rcx]
            b"\x0f\xae\xb4\x88\xf0\xff\xff\xff", // xsaveopt [rax+rcx*4-16]
            b"\x4b\x0f\xae\x64\xfd\x08",         // xsave64 [r13+r15*8+8]
            b"\x0f\xae\x24\x25\x40\x00\x00\x50", // xsave [50000040h]
            b"\x0f\xae\x25\x40\x00\x00\x00",     // xsave [rip+40h]
            b"\x67\x0f\xae\x21",                 // xsave [ecx]
            b"\x64\x0f\xae\x21",                 // xsave fs:[rcx]
        ];
        let described: Vec<bool> = forms
            .iter()
            .map(|bytes| {
                let insn = Decoder::with_ip(64, bytes, 0x40_0000, DecoderOptions::NONE).decode();
                assert!(fip::is_xsave(&insn), "{insn}");
                let Some((word, disp)) = describe(&insn) else {
                    return false;
                };
                let expected = fip::operand(&insn, &ctx, 0).expect("an operand");
                let (form, at) = super::described(&ctx, word, disp);
                assert_eq!((form, at), (Form::of(&insn), expected), "{insn}");
                true
            })
            .collect();
        assert_eq!(
            described,
            [true, true, true, true, false, false, false, false]
        );
    }

    #[test]
    fn what_is_in_its_initial_state_is_not_written_by_xsavec() {
        let mut ctx = Context::new();
        for reg in [Reg::Rax, Reg::Rdx] {
            ctx.gpr[reg as usize] = u64::MAX;
        }
        let area = ctx.vectors_mut();
        area.reset();
        area.0[160..176].fill(7);
        area.set_xstate_bv(SSE);
        let written = |bytes: &[u8]| {
            let insn = Decoder::with_ip(64, bytes, 0x40_0000, DecoderOptions::NONE).decode();
            writes(&insn, &ctx)
        };
        let xsavec = written(b"\x0f\xc7\x64\x24\x40");
        assert_eq!(xsavec, Some(vec![(24, 8), (160, 256), (HEADER, 16)]));
        let xsaveopt = written(b"\x0f\xae\x31");
        assert_eq!(xsaveopt, Some(vec![(24, 8), (160, 256), (HEADER, 8)]));
        let whole = written(b"\x0f\xae\x21").expect("it is one");
        let last = extended(cpu::xcr0()).last().map_or(416, |(_, (_, to))| to);
        assert!(whole.iter().any(|(at, len)| at + len == last as u64));
        assert_eq!(written(b"\x89\x01"), None);
    }
}
