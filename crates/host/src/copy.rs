//! Reading and writing guest memory from host code. A bad address is an error and not a crash: the
//! signal handler knows the one copy loop and moves a fault in it to its end.

use std::arch::naked_asm;

use crate::addr::{GuestAddr, PAGE};
use crate::layout;

/// The guest address was not readable or writable (EFAULT).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadAddress(pub GuestAddr);

#[unsafe(naked)]
unsafe extern "C" fn copy_until_fault(dst: u64, src: u64, len: u64) -> u64 {
    naked_asm!(
        "mov rcx, rdx",
        ".globl relive_copy_insn",
        ".hidden relive_copy_insn",
        "relive_copy_insn:",
        "rep movsb",
        ".globl relive_copy_fixup",
        ".hidden relive_copy_fixup",
        "relive_copy_fixup:",
        "mov rax, rcx",
        "ret",
    )
}

/// The outcome of [`exchange_unless_fault`], beside the word that it has found.
const EXCHANGED: u64 = 1;
const FAULTED: u64 = 2;

/// The word's old value in the lower half; above it the outcome.
#[unsafe(naked)]
unsafe extern "C" fn exchange_unless_fault(word: u64, old: u32, new: u32) -> u64 {
    naked_asm!(
        "mov eax, esi",
        "xor ecx, ecx",
        ".globl relive_exchange_insn",
        ".hidden relive_exchange_insn",
        "relive_exchange_insn:",
        "lock cmpxchg dword ptr [rdi], edx",
        "sete cl",
        "2:",
        "shl rcx, 32",
        "mov eax, eax",
        "or rax, rcx",
        "ret",
        ".globl relive_exchange_fixup",
        ".hidden relive_exchange_fixup",
        "relive_exchange_fixup:",
        "mov ecx, {faulted}",
        "jmp 2b",
        faulted = const FAULTED,
    )
}

unsafe extern "C" {
    safe static relive_copy_insn: u8;
    safe static relive_copy_fixup: u8;
    safe static relive_exchange_insn: u8;
    safe static relive_exchange_fixup: u8;
}

/// For the signal handler: the address to move a fault at `rip` to, if it is one of this module's
/// accesses.
#[must_use]
pub fn fixup_target(rip: u64) -> Option<u64> {
    let accesses = [
        (&raw const relive_copy_insn, &raw const relive_copy_fixup),
        (
            &raw const relive_exchange_insn,
            &raw const relive_exchange_fixup,
        ),
    ];
    let found = accesses.iter().find(|(insn, _)| rip == *insn as u64);
    found.map(|(_, fixup)| *fixup as u64)
}

fn in_window(addr: GuestAddr, len: u64) -> bool {
    addr.0
        .checked_add(len)
        .is_some_and(|end| end <= layout::FAR_END)
        && (len == 0 || (layout::guest_may_map(addr.0) && layout::guest_may_map(addr.0 + len - 1)))
}

/// Reads `buf.len()` bytes.
///
/// # Errors
/// The first unreadable address; `buf` may be partly overwritten.
pub fn read(addr: GuestAddr, buf: &mut [u8]) -> Result<(), BadAddress> {
    let len = buf.len() as u64;
    if !in_window(addr, len) {
        return Err(BadAddress(addr));
    }
    // SAFETY: `buf` is ours; the source is in the guest window and faults are fixed up.
    let left = unsafe { copy_until_fault(buf.as_mut_ptr() as u64, addr.0, len) };
    if left == 0 {
        Ok(())
    } else {
        Err(BadAddress(addr.offset(len - left)))
    }
}

/// Writes `bytes`.
///
/// # Errors
/// The first unwritable address; earlier bytes have been written.
pub fn write(addr: GuestAddr, bytes: &[u8]) -> Result<(), BadAddress> {
    let len = bytes.len() as u64;
    if !in_window(addr, len) {
        return Err(BadAddress(addr));
    }
    // SAFETY: `bytes` is ours; the destination is guest memory, which no Rust object lives
    // in, and faults are fixed up.
    let left = unsafe { copy_until_fault(addr.0, bytes.as_ptr() as u64, len) };
    if left == 0 {
        Ok(())
    } else {
        Err(BadAddress(addr.offset(len - left)))
    }
}

/// Puts `new` into a word if `old` is there, by one atomic instruction. The word that was there.
///
/// # Errors
/// The word cannot be written; it is as it was.
pub fn exchange(addr: GuestAddr, old: u32, new: u32) -> Result<u32, BadAddress> {
    if !in_window(addr, 4) {
        return Err(BadAddress(addr));
    }
    // SAFETY: the word is guest memory, which no Rust object lives in, and faults are fixed up.
    let came = unsafe { exchange_unless_fault(addr.0, old, new) };
    match came >> 32 {
        FAULTED => Err(BadAddress(addr)),
        0 | EXCHANGED => Ok(came as u32),
        more => unreachable!("{more}"),
    }
}

/// Reads a plain value of `N` bytes.
///
/// # Errors
/// As [`read`].
pub fn read_array<const N: usize>(addr: GuestAddr) -> Result<[u8; N], BadAddress> {
    let mut b = [0; N];
    read(addr, &mut b)?;
    Ok(b)
}

/// Reads a little-endian u64.
///
/// # Errors
/// As [`read`].
pub fn read_u64(addr: GuestAddr) -> Result<u64, BadAddress> {
    read_array(addr).map(u64::from_le_bytes)
}

/// Reads a little-endian u32.
///
/// # Errors
/// As [`read`].
pub fn read_u32(addr: GuestAddr) -> Result<u32, BadAddress> {
    read_array(addr).map(u32::from_le_bytes)
}

/// Reads a NUL-terminated string (without the NUL) of at most `max` bytes into `out`.
///
/// # Errors
/// As [`read`]; also when no NUL is found within `max` bytes.
pub fn read_cstr(addr: GuestAddr, max: usize, out: &mut Vec<u8>) -> Result<(), BadAddress> {
    out.clear();
    let mut at = addr;
    let mut page = [0u8; PAGE as usize];
    while out.len() < max {
        let chunk = &mut page[..(PAGE - at.0 % PAGE).min(256) as usize];
        read(at, chunk)?;
        if let Some(end) = chunk.iter().position(|&b| b == 0) {
            out.extend_from_slice(&chunk[..end]);
            return Ok(());
        }
        out.extend_from_slice(chunk);
        at = at.offset(chunk.len() as u64);
    }
    Err(BadAddress(at))
}
