//! The extended state in a signal frame, as the kernel saves and restores it
//! (arch/x86/kernel/fpu/signal.c): the XSAVE area with a few words of the kernel's own in it.

use relive_host::context::XsaveArea;
use relive_host::{GuestAddr, copy, cpu};

use crate::task::Task;

const MAGIC1: u32 = 0x4650_5853;
const MAGIC2: u32 = 0x4650_5845;
/// Bytes of the second magic number, behind the area.
pub const END: u64 = 4;
/// Offset in the legacy area of the bytes that the kernel reserves for software.
const SW_RESERVED: usize = 464;
/// Size of the legacy area, and of that with the header behind it.
const LEGACY: usize = 512;
const HEADER_END: usize = 576;
const X87: u64 = 1;
const SSE: u64 = 1 << 1;
const AVX: u64 = 1 << 2;

/// The extended state with the kernel's software bytes. Parts in their initial state are zeroed,
/// because the bytes that a processor leaves there differ from run to run.
pub fn saved(area: &XsaveArea) -> Vec<u8> {
    let size = cpu::xsave_size();
    let mut out = area.0[..size].to_vec();
    let bv = area.xstate_bv();
    for (component, from, to) in components(size) {
        if bv >> component & 1 == 0 {
            out[from..to].fill(0);
        }
    }
    if bv & X87 == 0 {
        out[0..24].fill(0);
        out[0..2].copy_from_slice(&0x37f_u16.to_le_bytes());
        out[32..160].fill(0);
    }
    let sw = &mut out[SW_RESERVED..LEGACY];
    sw.fill(0);
    sw[0..4].copy_from_slice(&MAGIC1.to_le_bytes());
    sw[4..8].copy_from_slice(&(size as u32 + END as u32).to_le_bytes());
    sw[8..16].copy_from_slice(&cpu::xcr0().to_le_bytes());
    sw[16..20].copy_from_slice(&(size as u32).to_le_bytes());
    // The kernel always shows x87 and SSE as in use.
    let bv = (bv | X87 | SSE).to_le_bytes();
    out[LEGACY..LEGACY + 8].copy_from_slice(&bv);
    out.extend_from_slice(&MAGIC2.to_le_bytes());
    out
}

/// Component number and byte range of each component behind x87.
fn components(size: usize) -> impl Iterator<Item = (u32, usize, usize)> {
    let layout = cpu::xsave_layout();
    let extended = (2..8u32)
        .map(|i| (i, layout.ranges[i as usize].0, layout.ranges[i as usize].1))
        .filter(|&(_, _, to)| to != 0);
    std::iter::once((1, 160, 416))
        .chain(extended)
        .filter(move |&(_, _, to)| to <= size)
}

/// Restores the extended state that a frame points to. A null pointer stands for the initial state; a
/// bad one leaves the initial state.
///
/// # Errors
/// It cannot be read, or the processor would refuse it.
pub fn restore(task: &mut Task, fp: u64) -> Result<(), i64> {
    task.ctx.vectors_mut().reset();
    if fp == 0 {
        return Ok(());
    }
    let area = read(task, fp)?;
    *task.ctx.vectors_mut() = area;
    Ok(())
}

fn read(task: &Task, fp: u64) -> Result<XsaveArea, i64> {
    const BAD: i64 = -(libc::EFAULT as i64);
    let legacy: [u8; LEGACY] = task.read(fp)?;
    let wanted = wanted(task, fp, &legacy)?;
    let mxcsr = word(&legacy, 24);
    if wanted.unwrap_or(SSE) & (SSE | AVX) != 0 && mxcsr & !cpu::mxcsr_mask() != 0 {
        return Err(BAD);
    }
    let mut area = XsaveArea([0; relive_host::context::XSAVE_BYTES]);
    area.reset();
    let Some(wanted) = wanted else {
        // FXRSTOR.
        if !fp.is_multiple_of(16) {
            return Err(BAD);
        }
        area.0[..416].copy_from_slice(&legacy[..416]);
        area.set_xstate_bv(X87 | SSE);
        return Ok(area);
    };
    let header: [u8; HEADER_END - LEGACY] = task.read(fp + LEGACY as u64)?;
    let bv = u64::from_le_bytes(header[..8].try_into().unwrap_or_default());
    if !fp.is_multiple_of(64) || bv & !cpu::xcr0() != 0 || header[8..24].iter().any(|b| *b != 0) {
        return Err(BAD);
    }
    let used = bv & wanted;
    if used & X87 != 0 {
        area.0[..24].copy_from_slice(&legacy[..24]);
        area.0[32..160].copy_from_slice(&legacy[32..160]);
    }
    // The kernel initializes unwanted components afterwards, MXCSR with SSE.
    if wanted & SSE != 0 {
        area.0[24..28].copy_from_slice(&legacy[24..28]);
    }
    for (i, from, to) in components(cpu::xsave_size()) {
        if used >> i & 1 == 1 {
            copy::read(GuestAddr(fp + from as u64), &mut area.0[from..to]).map_err(|_| BAD)?;
        }
    }
    area.set_xstate_bv(used);
    Ok(area)
}

/// The components to be restored, by the kernel's words in the area; `None` where the kernel finds them
/// invalid, and takes the area for one of FXSAVE.
fn wanted(task: &Task, fp: u64, legacy: &[u8; LEGACY]) -> Result<Option<u64>, i64> {
    let sw = &legacy[SW_RESERVED..];
    let size = word(sw, 16) as usize;
    if word(sw, 0) != MAGIC1
        || size < HEADER_END
        || size > cpu::xsave_size()
        || size > word(sw, 4) as usize
    {
        return Ok(None);
    }
    let end = task.read::<4>(fp + size as u64)?;
    let features = u64::from_le_bytes(sw[8..16].try_into().unwrap_or_default());
    Ok((u32::from_le_bytes(end) == MAGIC2).then_some(features & cpu::xcr0()))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default())
}
