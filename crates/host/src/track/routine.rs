//! The routine that translated code calls before an access which is not in the filter.
//!
//! It must change no register but rcx, rdx and flags, and touch no guest memory. There is an entry for
//! each kind of access. The first part knows by a line that the tracker would do no more than to
//! renew a slot, or to release objects of which the thread knows all, and does that itself: with
//! general registers alone and without data of the thread, so that nothing else need be saved. The second
//! part saves all registers that compiled code may change, vector registers in the context's place
//! for them, gives the tracker the host's FS, and calls it.

use std::arch::naked_asm;
use std::mem::offset_of;

use super::access::{KINDS, SIZE_SHIFT, Span, Tracked, kind};
use super::filter::{ENTRY_SHIFT, ERA_SHIFT, ERAS};
use super::lines::{LINES, Line, NOW, Now};
use super::tracker::TRACKER;
use crate::context::{Context, LANES, off};
use crate::vectors;

const _: () = assert!(LANES == 8 && size_of::<Line>() == 8 << ENTRY_SHIFT);

/// The entries, by [`kind`].
pub(crate) fn entries() -> [u64; KINDS] {
    let entries = [read, write, atomic, told];
    entries.map(|entry: unsafe extern "C" fn()| entry as *const () as u64)
}

/// Calls the routine as translated code does, for tests of a tracker.
///
/// # Safety
/// The thread's GS base is the address of `ctx`, in which both FS bases are the thread's, and the
/// thread is the one that tracks.
pub unsafe fn call(ctx: *mut Context, addr: u64, word: u64) {
    // SAFETY: the routine changes rcx, rdx and flags alone, and memory of the context, which the
    // caller vouches for.
    unsafe {
        std::arch::asm!(
            "call {entry}",
            entry = in(reg) entries()[kind(word)],
            inout("rcx") addr => _,
            inout("rdx") word => _,
            in("rdi") ctx,
        );
    }
}

/// The line of an access, and whether it is of this very one: rsi the state, rax the line.
macro_rules! find {
    () => {
        concat!(
            "push rax\n",
            "push rsi\n",
            "push rdi\n",
            "mov rsi, [rip + {now}]\n",
            "test rsi, rsi\n",
            "jz 8f\n",
            "movzx eax, dx\n",
            "add rax, [rsi + {sites}]\n",
            "cmp byte ptr [rax], 0\n",
            "jne 8f\n",
            "lea eax, [8 * ecx]\n",
            "and eax, {within}\n",
            "add rax, [rsi + {table}]\n",
            "cmp [rax + {line} + {line_addr}], rcx\n",
            "jne 8f\n",
            "mov rdi, rdx\n",
            "shr rdi, {size_shift}\n",
            "or rdi, [rsi + {generation}]\n",
            "cmp [rax + {line} + {line_shape}], rdi\n",
            "jne 8f\n",
            "mov rdi, [rax + {line} + {line_first}]\n",
        )
    };
}

/// The ways out: done, and on to the second part.
macro_rules! leave {
    () => {
        concat!(
            "pop rdi\n",
            "pop rsi\n",
            "pop rax\n",
            "ret\n",
            "8:\n",
            "pop rdi\n",
            "pop rsi\n",
            "pop rax\n",
            "jmp {told}\n",
        )
    };
}

/// An entry for plain accesses. The slot, in rdi, must still be of one like it.
macro_rules! plain {
    ($name:ident, $kind:expr) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                find!(),
                "mov esi, [rdi + 4]",
                "cmp esi, [rax + {line} + {line_second}]",
                "jne 8f",
                // Into the filter.
                "mov eax, [rax + {line} + {line_second} + 4]",
                "xor rcx, gs:[{key}]",
                "mov [rax], rcx",
                "mov rsi, [rip + {now}]",
                "mov [rdi + 24], rdx",
                "mov eax, [rsi + {time}]",
                "mov [rdi], eax",
                "mov rax, [rsi + {event}]",
                "mov [rdi + 16], rax",
                "mov rax, gs:[{ticks_base}]",
                "mov rcx, gs:[{tick_lanes}]",
                ".irp n, 1,2,3,4,5,6,7",
                "add rax, gs:[{dealt} + 8 * \\n]",
                "add rcx, gs:[{tick_lanes} + 8 * \\n]",
                ".endr",
                "add rax, gs:[{dealt}]",
                "sub rax, rcx",
                "mov [rdi + 8], rax",
                leave!(),
                now = sym NOW,
                told = sym told,
                sites = const offset_of!(Now, sites),
                table = const offset_of!(Now, table),
                generation = const offset_of!(Now, generation),
                time = const offset_of!(Now, time),
                event = const offset_of!(Now, event),
                size_shift = const SIZE_SHIFT,
                within = const (LINES - 1) * size_of::<Line>(),
                line = const $kind * LINES * size_of::<Line>(),
                line_addr = const offset_of!(Line, addr),
                line_shape = const offset_of!(Line, shape),
                line_first = const offset_of!(Line, first),
                line_second = const offset_of!(Line, second),
                key = const off::TRACK_KEY,
                ticks_base = const off::TICKS_BASE,
                dealt = const off::DEALT,
                tick_lanes = const off::LANES,
            )
        }
    };
}

plain!(read, 0);
plain!(write, 1);

/// The entry for atomic accesses. The objects must be held by the very knowledge of now.
#[unsafe(naked)]
unsafe extern "C" fn atomic() {
    naked_asm!(
        find!(),
        "mov rax, [rax + {line} + {line_second}]",
        "push rdx",
        "mov rdx, [rsi + {stamp}]",
        "cmp [rdi], rdx",
        "jne 7f",
        "cmp [rax], rdx",
        "jne 7f",
        "cmp dword ptr [rsi + {era}], {last_era}",
        "jae 7f",
        "mov edx, [rsi + {time}]",
        "cmp edx, -1",
        "je 7f",
        "mov [rdi + 8], edx",
        "mov [rax + 8], edx",
        "inc edx",
        "mov [rsi + {time}], edx",
        "inc dword ptr [rsi + {era}]",
        "mov eax, 1",
        "shl rax, {era_shift}",
        "add gs:[{key}], rax",
        "pop rdx",
        leave!(),
        "7:",
        "pop rdx",
        "jmp 8b",
        now = sym NOW,
        told = sym told,
        sites = const offset_of!(Now, sites),
        table = const offset_of!(Now, table),
        generation = const offset_of!(Now, generation),
        time = const offset_of!(Now, time),
        stamp = const offset_of!(Now, stamp),
        era = const offset_of!(Now, era),
        size_shift = const SIZE_SHIFT,
        within = const (LINES - 1) * size_of::<Line>(),
        line = const 2 * LINES * size_of::<Line>(),
        line_addr = const offset_of!(Line, addr),
        line_shape = const offset_of!(Line, shape),
        line_first = const offset_of!(Line, first),
        line_second = const offset_of!(Line, second),
        last_era = const ERAS - 1,
        era_shift = const ERA_SHIFT,
        key = const off::TRACK_KEY,
    )
}

/// Flags that compiled code must not find set: DF and AC.
const UNUSUAL: u32 = 1 << 10 | 1 << 18;

/// Hands an access on.
extern "C" fn tell(ctx: &mut Context, addr: u64, word: u64, flags: u64) {
    // SAFETY: the one thread of the process.
    if let Some(tracker) = unsafe { *TRACKER.0.get() } {
        let span = Span::of(Tracked::of(word), addr, ctx.spill_rcx, flags);
        tracker(ctx, span, word);
    }
}

/// With the address in rcx and the description in rdx, which the caller has saved, as well as the
/// arithmetic flags: calls the tracker.
#[unsafe(naked)]
unsafe extern "C" fn told() {
    naked_asm!(
        "push rbp",
        "mov rbp, rsp",
        "push rax",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "pushfq",
        "test dword ptr [rsp], {unusual}",
        "jz 1f",
        "push 2",
        "popfq",
        "1:",
        "and rsp, -16",
        "mov rdi, gs:[{this}]",
        "cmp dword ptr [rdi + {form}], {avx}",
        "ja 6f",
        "je 5f",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "movaps [rdi + {vectors} + 64 * \\n], xmm\\n",
        ".endr",
        "jmp 9f",
        "6:",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "vmovdqa64 [rdi + {vectors} + 64 * \\n], zmm\\n",
        ".endr",
        ".irp n, 0,1,2,3,4,5,6,7",
        "kmovq [rdi + {masks} + 8 * \\n], k\\n",
        ".endr",
        "vzeroupper",
        "jmp 9f",
        "5:",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "vmovdqa [rdi + {vectors} + 64 * \\n], ymm\\n",
        ".endr",
        "vzeroupper",
        "9:",
        "mov rsi, rcx",
        "mov rcx, [rbp - 64]",
        "mov rax, [rdi + {host_fs}]",
        "wrfsbase rax",
        "call {tell}",
        "mov rdi, gs:[{this}]",
        "mov rax, [rdi + {guest_fs}]",
        "wrfsbase rax",
        "cmp dword ptr [rdi + {form}], {avx}",
        "ja 6f",
        "je 5f",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "movaps xmm\\n, [rdi + {vectors} + 64 * \\n]",
        ".endr",
        "jmp 9f",
        "6:",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31",
        "vmovdqa64 zmm\\n, [rdi + {vectors} + 64 * \\n]",
        ".endr",
        ".irp n, 0,1,2,3,4,5,6,7",
        "kmovq k\\n, [rdi + {masks} + 8 * \\n]",
        ".endr",
        "jmp 9f",
        "5:",
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
        "vmovdqa ymm\\n, [rdi + {vectors} + 64 * \\n]",
        ".endr",
        "9:",
        "lea rsp, [rbp - 64]",
        "test dword ptr [rsp], {unusual}",
        "jz 2f",
        "popfq",
        "jmp 3f",
        "2:",
        "pop rax",
        "3:",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rax",
        "pop rbp",
        "ret",
        this = const off::THIS,
        form = const off::FORM,
        avx = const vectors::AVX,
        vectors = const off::VECTORS,
        masks = const off::MASKS,
        host_fs = const off::HOST_FS,
        guest_fs = const off::GUEST_FS,
        tell = sym tell,
        unusual = const UNUSUAL,
    )
}
