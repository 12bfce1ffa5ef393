//! Features of this processor, and the few instructions that query or set its state.

use std::arch::asm;
use std::arch::x86_64::{__cpuid_count, _xgetbv};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

/// XSAVE components that belong to a guest thread: x87, SSE, AVX, AVX-512 (three parts).
/// Protection keys are left out: the guest has none.
pub const XSAVE_MASK: u64 = 0xe7;

/// The components of AVX-512 among them.
const AVX512: u64 = 0xe0;

/// Why this processor or kernel cannot run Relive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lacking {
    /// `HWCAP2_FSGSBASE` is not set (kernel before 5.9, or a processor before 2012).
    FsGsBase,
    /// No XSAVE.
    Xsave,
}

/// Checks that the instructions the host itself needs are usable.
///
/// # Errors
/// The first missing feature.
pub fn check() -> Result<(), Lacking> {
    // SAFETY: getauxval only reads the auxiliary vector.
    if unsafe { libc::getauxval(libc::AT_HWCAP2) } & 2 == 0 {
        return Err(Lacking::FsGsBase);
    }
    let leaf1 = __cpuid_count(1, 0);
    if leaf1.ecx & (1 << 27) == 0 {
        return Err(Lacking::Xsave);
    }
    Ok(())
}

/// The XSAVE area of a guest thread on this processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct XsaveLayout {
    /// Guest-owned components that are enabled.
    pub components: u64,
    /// Bytes of the standard-format area.
    pub size: usize,
    /// Byte range of each extended component (from 2), empty where there is none.
    pub ranges: [(usize, usize); 8],
    /// Mask registers have 64 bits (AVX-512BW).
    pub wide_masks: bool,
}

/// Data queried once from the processor: CPUID is slow where a hypervisor answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Known {
    /// The layout of extended state.
    pub layout: XsaveLayout,
    /// Whether it is one of Intel's.
    pub intel: bool,
}

/// The known data. Process-wide: there is one processor, and asking it is slow.
static KNOWN: OnceLock<Known> = OnceLock::new();

/// The data of this processor.
pub fn known() -> &'static Known {
    KNOWN.get_or_init(|| Known {
        layout: look_at_layout(),
        intel: look_at_maker(),
    })
}

/// Takes over the data from another process on this machine.
pub fn adopt(known: Known) {
    let _ = KNOWN.set(known);
}

/// Whether this is a processor of Intel's.
pub fn is_intel() -> bool {
    known().intel
}

/// The layout on this processor.
pub fn xsave_layout() -> &'static XsaveLayout {
    &known().layout
}

fn look_at_maker() -> bool {
    let leaf0 = __cpuid_count(0, 0);
    [leaf0.ebx, leaf0.edx, leaf0.ecx]
        .map(u32::to_le_bytes)
        .concat()
        == *b"GenuineIntel"
}

fn look_at_layout() -> XsaveLayout {
    // SAFETY: `check` has established XSAVE, without which Relive does not start.
    let components = (unsafe { xgetbv() }) & XSAVE_MASK;
    let (mut size, mut ranges) = (576, [(0, 0); 8]);
    for i in (2..8).filter(|i| components >> i & 1 == 1) {
        let l = __cpuid_count(0xd, i);
        ranges[i as usize] = (l.ebx as usize, (l.ebx + l.eax) as usize);
        size = size.max(ranges[i as usize].1);
    }
    let wide_masks = components & AVX512 == AVX512 && __cpuid_count(7, 0).ebx >> 30 & 1 == 1;
    XsaveLayout {
        components,
        size,
        ranges,
        wide_masks,
    }
}

/// Guest-owned XSAVE components that are enabled here.
#[must_use]
pub fn xcr0() -> u64 {
    xsave_layout().components
}

/// The bits of MXCSR that the processor has, as FXSAVE stores them (Intel SDM vol. 1, 11.6.6).
#[must_use]
pub fn mxcsr_mask() -> u32 {
    /// The bits, once known. Process-wide: there is one processor, and asking it is slow.
    static MASK: OnceLock<u32> = OnceLock::new();
    #[repr(align(16))]
    struct Area([u8; 512]);
    *MASK.get_or_init(|| {
        let mut area = Area([0; 512]);
        // SAFETY: the area has the size and alignment that the instruction needs.
        unsafe { asm!("fxsave64 [{}]", in(reg) &raw mut area, options(nostack)) };
        let mut mask = [0; 4];
        mask.copy_from_slice(&area.0[28..32]);
        match u32::from_le_bytes(mask) {
            0 => 0xffbf,
            mask => mask,
        }
    })
}

/// Size in bytes of the standard-format area for [`xcr0`] (CPUID leaf 0xd).
#[must_use]
pub fn xsave_size() -> usize {
    xsave_layout().size
}

/// Size in bytes of the standard-format area for all components that are enabled here, the guest's and others, such as
/// protection keys (CPUID leaf 0xd).
#[must_use]
pub fn native_xsave_size() -> usize {
    __cpuid_count(0xd, 0).ebx as usize
}

#[target_feature(enable = "xsave")]
unsafe fn xgetbv() -> u64 {
    // SAFETY: XCR0 is always readable where XSAVE is enabled.
    unsafe { _xgetbv(0) }
}

/// Reads the FS base.
#[must_use]
pub fn fs_base() -> u64 {
    let v;
    // SAFETY: `check` has established FSGSBASE; reading changes nothing.
    unsafe { asm!("rdfsbase {}", out(reg) v, options(nomem, nostack, preserves_flags)) };
    v
}

/// Serialises instruction execution: later instructions are fetched anew. By a return to the next
/// instruction, as cpuid leaves a virtual machine.
pub fn serialize() {
    // SAFETY: pushes a frame, which `iretq` takes off again, with the stack, flags and segments as
    // they are.
    unsafe {
        asm!(
            "mov {sp}, rsp",
            "mov {seg:e}, ss",
            "push {seg}",
            "push {sp}",
            "pushfq",
            "mov {seg:e}, cs",
            "push {seg}",
            "lea {seg}, [rip + 2f]",
            "push {seg}",
            "iretq",
            "2:",
            sp = out(reg) _,
            seg = out(reg) _,
        )
    };
}

/// Points this host thread's GS base at a context.
///
/// # Safety
/// `ctx` must stay valid for as long as this thread may enter guest code or take signals.
pub unsafe fn set_gs_base(ctx: u64) {
    // SAFETY: the host itself never uses GS; the caller keeps the context alive.
    unsafe { asm!("wrgsbase {}", in(reg) ctx, options(nomem, nostack, preserves_flags)) };
}

/// Reads the GS base.
#[must_use]
pub fn gs_base() -> u64 {
    let v;
    // SAFETY: as for `fs_base`.
    unsafe { asm!("rdgsbase {}", out(reg) v, options(nomem, nostack, preserves_flags)) };
    v
}
