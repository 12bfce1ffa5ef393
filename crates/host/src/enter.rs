//! The border between host code and translated code.
//!
//! `enter` loads a guest thread's registers and jumps into the code cache; exit stubs jump
//! to `exit_to_host`, which saves them and returns to `enter`'s caller. FS is swapped on
//! both ways: the guest's thread-local storage is its own.
//!
//! Vector registers are stored and loaded one by one where the processor has AVX: XSAVE and XRSTOR
//! cost several times as much, for any set of components. The x87 registers then stay in the
//! processor: host code never touches them. See `vectors.rs`.

use std::arch::naked_asm;

use crate::context::{Context, LANES, off};
use crate::{cpu, order, permissions, reading, track, vectors};

/// The arithmetic flags, and those that are always set in user mode (Intel SDM vol. 1, 3.4.3):
/// bit 1 and IF.
const USUAL_FLAGS: i32 = 0x8d5 | 0x202;

impl Context {
    /// A fresh context: all registers zero, vector state initial, no budget.
    /// `host_fs` is filled in by [`adopt`].
    #[must_use]
    pub fn new() -> Box<Self> {
        // SAFETY: every field is plain integers or an optional box, for which all-zero bytes are a
        // value; the allocation has the type's own layout.
        let mut ctx: Box<Self> = unsafe { Box::new_zeroed().assume_init() };
        ctx.this = &raw const *ctx as u64;
        ctx.exit_fn = exit_to_host as *const () as u64;
        (ctx.routines, ctx.vdso) = reading::in_use();
        (ctx.order_fn, ctx.edges) = order::in_use();
        ctx.range_fn = permissions::range::address();
        ctx.track_fns = track::routine::entries();
        ctx.rflags = 0x202;
        ctx.form = vectors::form();
        ctx.xsave.reset();
        ctx
    }
}

/// Makes `ctx` the current context of this host thread (GS base, host FS base).
///
/// # Safety
/// `ctx` must stay valid and unmoved for as long as this thread may enter guest code or
/// take signals, or until another context is adopted.
pub unsafe fn adopt(ctx: *mut Context) {
    // SAFETY: the caller vouches for `ctx`, and did for the one adopted before, which unregisters
    // itself when it is dropped.
    unsafe {
        vectors::change_to(ctx);
        (*ctx).host_fs = cpu::fs_base();
        cpu::set_gs_base(ctx as u64);
    }
}

/// Runs the current guest thread from `ctx.entry` until an exit, which is then in `ctx.exit`.
///
/// # Safety
/// `ctx` is the context adopted by this thread, `ctx.entry` is an entry of a live fragment
/// and the registers are the guest's.
#[unsafe(naked)]
pub unsafe extern "C" fn enter(ctx: *mut Context) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "cmp qword ptr [rdi + {pending}], 0",
        // From here on a signal handler forces the exit itself.
        ".globl relive_enter_checked",
        ".hidden relive_enter_checked",
        "relive_enter_checked:",
        "je 2f",
        // A signal was noted, or the thread is wanted: let it leave at its next tick.
        crate::ticks::cut_lanes!(),
        "2:",
        "mov [rdi + {host_rsp}], rsp",
        "mov rax, [rdi + {guest_fs}]",
        "wrfsbase rax",
        "cmp dword ptr [rdi + {held}], {avx}",
        "ja 6f",
        "je 5f",
        "mov eax, {mask}",
        "xor edx, edx",
        "xrstor64 [rdi + {xsave}]",
        "jmp 9f",
        "6:",
        ".irp n, 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "vmovdqa64 zmm\\n, [rdi + {vectors} + 64 * \\n]",
        ".endr",
        ".irp n, 0,1,2,3,4,5,6,7",
        "kmovq k\\n, [rdi + {masks} + 8 * \\n]",
        ".endr",
        "cmp byte ptr [rdi + {upper}], 0",
        "je 7f",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "vmovdqa64 zmm\\n, [rdi + {vectors} + 64 * \\n]",
        ".endr",
        "jmp 8f",
        "5:",
        "cmp byte ptr [rdi + {upper}], 0",
        "je 7f",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "vmovdqa ymm\\n, [rdi + {vectors} + 64 * \\n]",
        ".endr",
        "jmp 8f",
        // Upper halves that are all zero are left clean: on some processors code that uses only the
        // lower ones runs slower beside dirty ones.
        "7:",
        "vzeroupper",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "movaps xmm\\n, [rdi + {vectors} + 64 * \\n]",
        ".endr",
        "8:",
        "ldmxcsr [rdi + {mxcsr}]",
        "9:",
        // popf is slow. The host's own flags are clear but for the arithmetic ones, and a guest
        // seldom has others set.
        "mov eax, [rdi + {rflags}]",
        "test eax, {unusual}",
        "jnz 4f",
        "mov ecx, eax",
        "shr ecx, 11",
        "and ecx, 1",
        "mov ah, al",
        // Overflows if the guest's last result did.
        "add cl, 0x7f",
        "sahf",
        "3:",
        "mov rax, [rdi + {gpr}]",
        "mov rcx, [rdi + {gpr} + 8]",
        "mov rdx, [rdi + {gpr} + 16]",
        "mov rbx, [rdi + {gpr} + 24]",
        "mov rsp, [rdi + {gpr} + 32]",
        "mov rbp, [rdi + {gpr} + 40]",
        "mov rsi, [rdi + {gpr} + 48]",
        "mov r8, [rdi + {gpr} + 64]",
        "mov r9, [rdi + {gpr} + 72]",
        "mov r10, [rdi + {gpr} + 80]",
        "mov r11, [rdi + {gpr} + 88]",
        "mov r12, [rdi + {gpr} + 96]",
        "mov r13, [rdi + {gpr} + 104]",
        "mov r14, [rdi + {gpr} + 112]",
        "mov r15, [rdi + {gpr} + 120]",
        "mov rdi, [rdi + {gpr} + 56]",
        "jmp qword ptr gs:[{entry}]",
        "4:",
        "push qword ptr [rdi + {rflags}]",
        "popfq",
        "jmp 3b",
        ".globl relive_enter_end",
        ".hidden relive_enter_end",
        "relive_enter_end:",
        pending = const off::PENDING,
        lanes = const off::LANES,
        dealt = const off::DEALT,
        count = const LANES,
        host_rsp = const off::HOST_RSP,
        guest_fs = const off::GUEST_FS,
        mask = const cpu::XSAVE_MASK,
        xsave = const off::XSAVE,
        held = const off::HELD,
        avx = const vectors::AVX,
        vectors = const off::VECTORS,
        masks = const off::MASKS,
        upper = const off::UPPER,
        mxcsr = const off::MXCSR,
        rflags = const off::RFLAGS,
        unusual = const !USUAL_FLAGS,
        gpr = const off::GPR,
        entry = const off::ENTRY,
    )
}

unsafe extern "C" {
    safe static relive_enter_checked: u8;
    safe static relive_enter_end: u8;
}

/// For the signal handler: whether `rip` is in `enter`, behind its check of `pending`.
#[must_use]
pub fn past_pending_check(rip: u64) -> bool {
    (&raw const relive_enter_checked as u64..&raw const relive_enter_end as u64).contains(&rip)
}

/// The target of exit stubs, with the guest's registers live; the second half of `enter`.
///
/// # Safety
/// Reached only by a jump from the code cache, or by a signal handler that redirects a
/// fault in the code cache here.
#[unsafe(naked)]
pub unsafe extern "C" fn exit_to_host() {
    naked_asm!(
        "mov gs:[{gpr}], rax",
        "mov gs:[{gpr} + 8], rcx",
        "mov gs:[{gpr} + 16], rdx",
        "mov gs:[{gpr} + 24], rbx",
        "mov gs:[{gpr} + 32], rsp",
        "mov gs:[{gpr} + 40], rbp",
        "mov gs:[{gpr} + 48], rsi",
        "mov gs:[{gpr} + 56], rdi",
        "mov gs:[{gpr} + 64], r8",
        "mov gs:[{gpr} + 72], r9",
        "mov gs:[{gpr} + 80], r10",
        "mov gs:[{gpr} + 88], r11",
        "mov gs:[{gpr} + 96], r12",
        "mov gs:[{gpr} + 104], r13",
        "mov gs:[{gpr} + 112], r14",
        "mov gs:[{gpr} + 120], r15",
        "mov rdi, gs:[{this}]",
        "mov rsp, [rdi + {host_rsp}]",
        "pushfq",
        "pop qword ptr [rdi + {rflags}]",
        // Other flags that a guest sets must not make the host copy backwards or fault, and must
        // not be set when another guest thread is entered.
        "test dword ptr [rdi + {rflags}], {unusual}",
        "jz 2f",
        "push 0x2",
        "popfq",
        "2:",
        "mov eax, [rdi + {form}]",
        "mov [rdi + {held}], eax",
        "cmp eax, {avx}",
        "ja 6f",
        "je 5f",
        "mov eax, {mask}",
        "xor edx, edx",
        "xsaveopt64 [rdi + {xsave}]",
        "jmp 9f",
        "6:",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "vmovdqa64 [rdi + {vectors} + 64 * \\n], zmm\\n",
        ".endr",
        ".irp n, 0,1,2,3,4,5,6,7",
        "kmovq [rdi + {masks} + 8 * \\n], k\\n",
        ".endr",
        ".irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "vporq zmm0, zmm0, zmm\\n",
        ".endr",
        "vextracti64x4 ymm1, zmm0, 1",
        "vextracti128 xmm0, ymm0, 1",
        "vpor ymm0, ymm0, ymm1",
        "vptest ymm0, ymm0",
        "jmp 8f",
        "5:",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "vmovdqa [rdi + {vectors} + 64 * \\n], ymm\\n",
        ".endr",
        ".irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "vorps ymm0, ymm0, ymm\\n",
        ".endr",
        "vextractf128 xmm0, ymm0, 1",
        "vptest xmm0, xmm0",
        "8:",
        "setnz byte ptr [rdi + {upper}]",
        "stmxcsr [rdi + {mxcsr}]",
        "vzeroupper",
        "9:",
        "push 0x1f80",
        "ldmxcsr [rsp]",
        "pop rax",
        "mov rax, [rdi + {host_fs}]",
        "wrfsbase rax",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        gpr = const off::GPR,
        this = const off::THIS,
        host_rsp = const off::HOST_RSP,
        rflags = const off::RFLAGS,
        unusual = const !USUAL_FLAGS,
        mask = const cpu::XSAVE_MASK,
        xsave = const off::XSAVE,
        form = const off::FORM,
        held = const off::HELD,
        avx = const vectors::AVX,
        vectors = const off::VECTORS,
        masks = const off::MASKS,
        upper = const off::UPPER,
        mxcsr = const off::MXCSR,
        host_fs = const off::HOST_FS,
    )
}
