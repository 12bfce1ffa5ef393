//! The routine that translated code calls on the host's stack, before an ordered instruction whose
//! object another thread holds or held last. The way in and out is that of the readings of clocks.
//!
//! Behind it the thread holds the object and is its last thread. The caller has no flag to lose and
//! takes rax for its own; all other registers stay as they are. Only assembly runs here.

use std::arch::naked_asm;
use std::mem::offset_of;

use super::edge::{EDGES, Edge, MANY_EDGES};
use super::object::{HELD, LAST, LOOKS, OP};
use crate::context::{LANES, off};
use crate::reading::ticks;

/// Its address.
pub(super) fn address() -> u64 {
    take as *const () as u64
}

/// For the signal handler: whether `rip` is in the routine, behind its check of `pending`.
pub(crate) fn past_pending_check(rip: u64) -> bool {
    (&raw const relive_order_checked as u64..&raw const relive_order_end as u64).contains(&rip)
}

unsafe extern "C" {
    safe static relive_order_checked: u8;
    safe static relive_order_end: u8;
}

/// With the object's address in the context. eax has [`HELD`] set if the object is not the thread's
/// yet.
#[unsafe(naked)]
unsafe extern "C" fn take() {
    naked_asm!(
        "push rcx",
        "push rdx",
        "push rdi",
        "push r8",
        "push r11",
        "mov r8, gs:[{ordering}]",
        "test eax, eax",
        "jns 3f",
        // Another thread holds it.
        "2:",
        "mov edx, {looks}",
        "22:",
        "cmp dword ptr [r8], 0",
        "je 23f",
        "pause",
        "dec edx",
        "jnz 22b",
        "mov eax, {sched_yield}",
        "syscall",
        "jmp 2b",
        "23:",
        "mov eax, {held}",
        "xchg [r8], eax",
        "test eax, eax",
        "jnz 2b",
        // This one does.
        "3:",
        "mov ecx, [r8 + {last}]",
        "mov eax, gs:[{id}]",
        "test eax, eax",
        "jz 9f",
        "cmp ecx, eax",
        "je 5f",
        "mov [r8 + {last}], eax",
        "test ecx, ecx",
        "jz 5f",
        "mov edi, gs:[{edge_count}]",
        "cmp edi, {edges_len}",
        "jae 9f",
        "shl edi, {edge_shift}",
        "add rdi, gs:[{edges}]",
        "mov [rdi + {from}], ecx",
        "mov rax, [r8 + {op}]",
        "mov [rdi + {from_op}], rax",
        "mov rax, gs:[{ops}]",
        "inc rax",
        "mov [rdi + {at}], rax",
        "call {ticks}",
        "mov [rdi + {edge_ticks}], rax",
        "inc dword ptr gs:[{edge_count}]",
        "5:",
        "cmp dword ptr gs:[{edge_count}], {many}",
        "ja 6f",
        "cmp qword ptr gs:[{pending}], 0",
        // From here on a signal handler cuts the budget itself.
        ".globl relive_order_checked",
        ".hidden relive_order_checked",
        "relive_order_checked:",
        "jne 6f",
        "7:",
        "pop r11",
        "pop r8",
        "pop rdi",
        "pop rdx",
        "pop rcx",
        "ret",
        ".globl relive_order_end",
        ".hidden relive_order_end",
        "relive_order_end:",
        // The engine needs the thread: let it leave at its next tick.
        "6:",
        crate::ticks::cut_lanes!(),
        "jmp 7b",
        // A thread without a number, or so many edges without a tick.
        "9:",
        "ud2",
        ordering = const off::ORDERING,
        looks = const LOOKS,
        sched_yield = const libc::SYS_sched_yield,
        held = const HELD,
        last = const LAST,
        id = const off::ORDER_ID,
        edge_count = const off::EDGE_COUNT,
        edges_len = const EDGES,
        edge_shift = const size_of::<Edge>().trailing_zeros(),
        edges = const off::EDGES,
        from = const offset_of!(Edge, from),
        op = const OP,
        from_op = const offset_of!(Edge, from_op),
        ops = const off::OPS,
        at = const offset_of!(Edge, at),
        ticks = sym ticks,
        edge_ticks = const offset_of!(Edge, ticks),
        many = const MANY_EDGES,
        pending = const off::PENDING,
        lanes = const off::LANES,
        dealt = const off::DEALT,
        count = const LANES,
    )
}
