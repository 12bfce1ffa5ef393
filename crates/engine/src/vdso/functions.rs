//! The guest code of our vDSO, and the offsets of its functions.
//!
//! It is ordinary code but for two instructions, which translated code of this page knows:
//! `ud1 eax, eax` reads the clock in edi into rax (seconds) and rdx (nanoseconds, -1 if that
//! clock cannot be read so), `ud1 ecx, eax` the processor into eax and its node into edx.
//! The guest's memory is written by ordinary instructions: a bad pointer faults as natively.
//! It must change neither the stack nor a register that functions preserve (System V x86-64 ABI, 3.2.1),
//! so that one frame description fits all of it.

use std::arch::global_asm;

global_asm!(
    ".pushsection .rodata.relive_vdso, \"a\", @progbits",
    ".balign 16, 0xcc",
    ".globl relive_vdso_begin",
    ".hidden relive_vdso_begin",
    "relive_vdso_begin:",
    ".globl relive_vdso_clock_gettime",
    ".hidden relive_vdso_clock_gettime",
    "relive_vdso_clock_gettime:",
    ".byte 0x0f, 0xb9, 0xc0",
    "test edx, edx",
    "js 2f",
    "mov [rsi], rax",
    "mov [rsi + 8], rdx",
    "xor eax, eax",
    "ret",
    "2:",
    "mov eax, {clock_gettime}",
    "syscall",
    "ret",
    ".balign 16, 0xcc",
    ".globl relive_vdso_gettimeofday",
    ".hidden relive_vdso_gettimeofday",
    "relive_vdso_gettimeofday:",
    // The time zone is the kernel's own.
    "test rsi, rsi",
    "jnz 3f",
    "test rdi, rdi",
    "jz 2f",
    "mov r8, rdi",
    "xor edi, edi",
    ".byte 0x0f, 0xb9, 0xc0",
    "mov [r8], rax",
    // A thousandth: 2^38 / 1000, rounded up.
    "imul rax, rdx, 274877907",
    "shr rax, 38",
    "mov [r8 + 8], rax",
    "2:",
    "xor eax, eax",
    "ret",
    "3:",
    "mov eax, {gettimeofday}",
    "syscall",
    "ret",
    ".balign 16, 0xcc",
    ".globl relive_vdso_time",
    ".hidden relive_vdso_time",
    "relive_vdso_time:",
    "mov r8, rdi",
    "mov edi, {coarse}",
    ".byte 0x0f, 0xb9, 0xc0",
    "test r8, r8",
    "jz 2f",
    "mov [r8], rax",
    "2:",
    "ret",
    ".balign 16, 0xcc",
    ".globl relive_vdso_clock_getres",
    ".hidden relive_vdso_clock_getres",
    "relive_vdso_clock_getres:",
    "mov eax, {clock_getres}",
    "syscall",
    "ret",
    ".balign 16, 0xcc",
    ".globl relive_vdso_getcpu",
    ".hidden relive_vdso_getcpu",
    "relive_vdso_getcpu:",
    ".byte 0x0f, 0xb9, 0xc8",
    "test rdi, rdi",
    "jz 2f",
    "mov [rdi], eax",
    "2:",
    "test rsi, rsi",
    "jz 2f",
    "mov [rsi], edx",
    "2:",
    "xor eax, eax",
    "ret",
    ".globl relive_vdso_end",
    ".hidden relive_vdso_end",
    "relive_vdso_end:",
    ".popsection",
    clock_gettime = const libc::SYS_clock_gettime,
    gettimeofday = const libc::SYS_gettimeofday,
    clock_getres = const libc::SYS_clock_getres,
    coarse = const libc::CLOCK_REALTIME_COARSE,
);

unsafe extern "C" {
    safe static relive_vdso_begin: u8;
    safe static relive_vdso_clock_gettime: u8;
    safe static relive_vdso_gettimeofday: u8;
    safe static relive_vdso_time: u8;
    safe static relive_vdso_clock_getres: u8;
    safe static relive_vdso_getcpu: u8;
    safe static relive_vdso_end: u8;
}

/// All of the code.
#[must_use]
pub fn bytes() -> &'static [u8] {
    let start = &raw const relive_vdso_begin;
    let length = &raw const relive_vdso_end as usize - start as usize;
    // SAFETY: the two labels enclose read-only data of the executable.
    unsafe { std::slice::from_raw_parts(start, length) }
}

/// Its functions: name, offset, length.
#[must_use]
pub fn functions() -> [(&'static str, u64, u64); 5] {
    let starts = [
        &raw const relive_vdso_clock_gettime,
        &raw const relive_vdso_gettimeofday,
        &raw const relive_vdso_time,
        &raw const relive_vdso_clock_getres,
        &raw const relive_vdso_getcpu,
        &raw const relive_vdso_end,
    ]
    .map(|at| at as u64 - &raw const relive_vdso_begin as u64);
    let names = [
        "clock_gettime",
        "gettimeofday",
        "time",
        "clock_getres",
        "getcpu",
    ];
    std::array::from_fn(|i| (names[i], starts[i], starts[i + 1] - starts[i]))
}
