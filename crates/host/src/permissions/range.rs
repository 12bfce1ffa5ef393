//! The routine that translated code calls on the host's stack in front of a repeated store or copy (`rep stos`, `rep
//! movs`): whether all lines of its ranges are permitted.
//!
//! It must change no register but rdx and flags, and read nothing but the table and the context. Only assembly runs here.

use std::arch::naked_asm;

use super::bits::{LINE_SHIFT, LINES, READ, WRITE};
use crate::context::off;

/// In the routine's argument, beside log2 of the bytes of an item: there is a source at rsi, too.
pub const COPIES: u32 = 1 << 8;

/// More items are not looked at, and nothing is permitted: of 8 bytes they have half of a table's lines.
const MOST: u32 = 1 << 28;

/// The permission `of` in each of eight entries.
const fn in_eight(of: u8) -> u64 {
    u64::from_ne_bytes([of; 8])
}

/// Its address.
pub(crate) fn address() -> u64 {
    look as *const () as u64
}

/// For the signal handler: whether `rip` is in the routine, which counts no ticks.
pub(crate) fn is_in(rip: u64) -> bool {
    (look as *const () as u64..&raw const relive_range_end as u64).contains(&rip)
}

unsafe extern "C" {
    safe static relive_range_end: u8;
}

/// With the guest's rcx, rsi, rdi and direction flag: the instruction's. edx is log2 of the bytes of an item, with
/// [`COPIES`]; then it is 1 where everything is permitted, and otherwise 0.
#[unsafe(naked)]
unsafe extern "C" fn look() {
    naked_asm!(
        "push rax",
        "push rcx",
        "push rsi",
        "push rdi",
        "push r8",
        "push r9",
        "push r10",
        "mov r8, rcx",
        "mov eax, 1",
        "test r8, r8",
        "jz 4f",
        "cmp r8, {most}",
        "ja 3f",
        "mov ecx, edx",
        "shl r8, cl",
        "pushfq",
        "bt qword ptr [rsp], 10",
        "lea rsp, [rsp + 8]",
        "jnc 2f",
        // Backwards: the first item is the last one of the range.
        "shl rax, cl",
        "sub rax, r8",
        "add rsi, rax",
        "add rdi, rax",
        "2:",
        "mov r9, gs:[{permissions}]",
        "movabs r10, {writes}",
        "call 5f",
        "test eax, eax",
        "jz 4f",
        "test edx, {copies}",
        "jz 4f",
        "mov rdi, rsi",
        "movabs r10, {reads}",
        "call 5f",
        "jmp 4f",
        "3:",
        "xor eax, eax",
        "4:",
        "mov edx, eax",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rcx",
        "pop rax",
        "ret",
        // Of the r8 bytes at rdi, by the table at r9: whether all entries have r10. eax: 1, or 0.
        "5:",
        "lea rcx, [rdi + r8 - 1]",
        "shr rcx, {shift}",
        "mov rax, rdi",
        "shr rax, {shift}",
        "sub rcx, rax",
        "inc rcx",
        "and eax, {within}",
        // A range that goes around the end of all addresses.
        "cmp rcx, {lines}",
        "ja 9f",
        "6:",
        "cmp rcx, 8",
        "jb 7f",
        // Aligned, as the guest may want all accesses to be (EFLAGS.AC); so they do not go beyond the table.
        "test al, 7",
        "jnz 7f",
        "mov rdi, [r9 + rax]",
        "and rdi, r10",
        "cmp rdi, r10",
        "jne 9f",
        "add eax, 8",
        "and eax, {within}",
        "sub rcx, 8",
        "jmp 6b",
        "7:",
        "test rcx, rcx",
        "jz 8f",
        "test byte ptr [r9 + rax], r10b",
        "jz 9f",
        "inc eax",
        "and eax, {within}",
        "dec rcx",
        "jmp 6b",
        "8:",
        "mov eax, 1",
        "ret",
        "9:",
        "xor eax, eax",
        "ret",
        ".globl relive_range_end",
        ".hidden relive_range_end",
        "relive_range_end:",
        most = const MOST,
        permissions = const off::PERMISSIONS,
        writes = const in_eight(WRITE),
        reads = const in_eight(READ),
        copies = const COPIES,
        shift = const LINE_SHIFT,
        within = const LINES - 1,
        lines = const LINES,
    )
}

#[cfg(test)]
mod tests {
    use super::super::{Permissions, lines_of};
    use super::*;
    use crate::context::Context;
    use crate::enter;

    const DOWN: u64 = 1 << 10;

    /// What the routine says of `count` items of 2^`shape` bytes.
    fn permitted(
        ctx: *mut Context,
        count: u64,
        to: u64,
        from: u64,
        shape: u32,
        down: bool,
    ) -> bool {
        let (rdx, rest): (u64, [u64; 3]);
        let (mut rcx, mut rsi, mut rdi) = (count, from, to);
        // SAFETY: the routine reads the context that the thread has adopted, and its table.
        unsafe {
            std::arch::asm!(
                "test {down}, {down}",
                "jz 2f",
                "std",
                "2:",
                "call {look}",
                "cld",
                down = in(reg) u64::from(down) * DOWN,
                look = in(reg) address(),
                inout("rdx") u64::from(shape) => rdx,
                inout("rcx") rcx,
                inout("rsi") rsi,
                inout("rdi") rdi,
            );
        }
        rest = [rcx, rsi, rdi];
        assert_eq!(rest, [count, from, to], "of {ctx:?}");
        rdx == 1
    }

    #[test]
    fn a_range_is_permitted_when_each_of_its_lines_is() {
        let table = Permissions::new().expect("memory");
        let mut ctx = Context::new();
        *ctx.permissions.get_mut() = table.address();
        let ctx: *mut Context = &mut *ctx;
        // SAFETY: it is there until the test's thread has ended its calls.
        unsafe { enter::adopt(ctx) };
        let base = 0x7000_0000_0000 | (LINES - 40) << LINE_SHIFT;
        for (n, line) in lines_of(base, 80 << LINE_SHIFT).enumerate() {
            table.set(line, if n == 60 { READ } else { READ | WRITE });
        }
        let at = |n: u64| base + (n << LINE_SHIFT);
        let stores = |from, to, items| permitted(ctx, items, from, to, 0, false);
        assert!(stores(at(0), 0, 60 * 64));
        assert!(!stores(at(0), 0, 60 * 64 + 1));
        assert!(stores(at(60), 0, 0), "nothing is accessed");
        assert!(!stores(at(0), 0, u64::from(MOST) + 1));
        assert!(!stores(u64::MAX - 5, 0, 64));
        // Copies, of words, both ways.
        let copies = |to, from, words, down| permitted(ctx, words, to, from, 3 | COPIES, down);
        assert!(copies(at(1), at(50), 20 * 8, false));
        assert!(!copies(at(50), at(1), 20 * 8, false));
        assert!(!copies(at(1), at(70), 81, false));
        assert!(copies(at(30) - 8, at(80) - 8, 30 * 8, true));
        assert!(!copies(at(30) - 8, at(80) - 8, 30 * 8 + 1, true));
        assert!(!copies(at(61), at(80) - 8, 9, true));
        assert!(copies(at(61), at(80) - 8, 1, true));
    }
}
