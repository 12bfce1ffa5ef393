//! The kernel's vDSO, called by the routines.

use super::entry::is_readable;

/// Addresses of clock_gettime and getcpu in the kernel's vDSO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vdso {
    /// `int (clockid_t, struct timespec *)`
    pub clock: u64,
    /// `int (unsigned *, unsigned *, void *)`
    pub cpu: u64,
}

/// Whether the functions of the vDSO leave the vector registers unchanged, as the kernel builds
/// them: checked by calling them for every clock.
#[must_use]
pub fn keeps_vectors(vdso: Vdso) -> bool {
    let (mut at, mut node) = ([0u64; 2], [0u32; 2]);
    let (time, nodes) = (&raw mut at as u64, &raw mut node as u64);
    // SAFETY: both functions write at most these sixteen and four bytes.
    let kept = unsafe { undisturbed(vdso.cpu, nodes, nodes + 4) };
    kept && (0..32).filter(|c| is_readable(*c)).all(|clock| {
        // SAFETY: as above.
        unsafe { undisturbed(vdso.clock, u64::from(clock), time) }
    })
}

/// Calls a function with patterns in all vector registers that compiled code could use. Returns
/// whether they are still there and the function returned 0.
///
/// # Safety
/// As unsafe as the function.
unsafe fn undisturbed(function: u64, a: u64, b: u64) -> bool {
    let (before, mut after) = ([0x5a5a_1234_9876_a5a5_u64; 2], [[0u64; 2]; 16]);
    let result: u64;
    // SAFETY: the caller vouches for the function; all its effects are declared.
    unsafe {
        std::arch::asm!(
            "movups xmm0, [r12]", "movups xmm1, [r12]", "movups xmm2, [r12]", "movups xmm3, [r12]",
            "movups xmm4, [r12]", "movups xmm5, [r12]", "movups xmm6, [r12]", "movups xmm7, [r12]",
            "movups xmm8, [r12]", "movups xmm9, [r12]", "movups xmm10, [r12]", "movups xmm11, [r12]",
            "movups xmm12, [r12]", "movups xmm13, [r12]", "movups xmm14, [r12]", "movups xmm15, [r12]",
            "call r14",
            "movups [r13], xmm0", "movups [r13 + 16], xmm1", "movups [r13 + 32], xmm2",
            "movups [r13 + 48], xmm3", "movups [r13 + 64], xmm4", "movups [r13 + 80], xmm5",
            "movups [r13 + 96], xmm6", "movups [r13 + 112], xmm7", "movups [r13 + 128], xmm8",
            "movups [r13 + 144], xmm9", "movups [r13 + 160], xmm10", "movups [r13 + 176], xmm11",
            "movups [r13 + 192], xmm12", "movups [r13 + 208], xmm13", "movups [r13 + 224], xmm14",
            "movups [r13 + 240], xmm15",
            in("r12") &raw const before,
            in("r13") &raw mut after,
            in("r14") function,
            inlateout("rdi") a => _,
            inlateout("rsi") b => _,
            inlateout("rdx") 0 => _,
            lateout("rax") result,
            clobber_abi("C"),
        );
    }
    result as u32 == 0 && after == [before; 16]
}
