//! Raw system calls, with and without interruption by noted signals.
//!
//! The engine makes every guest system call through here, never through libc: errno, cancellation
//! points and libc's own process state must not get between guest and kernel.

use std::arch::naked_asm;

use crate::context::off;

/// Returned by [`syscall_interruptible`] when a signal was noted before the kernel was
/// entered: the call has not been made. (The kernel's own ERESTARTSYS, never seen by
/// programs.)
pub const INTERRUPTED: isize = -512;

/// Makes a system call. Returns the kernel's result, negative errno on failure.
///
/// # Safety
/// As unsafe as the call itself.
#[inline]
pub unsafe fn syscall(nr: u64, args: [u64; 6]) -> isize {
    let ret: isize;
    // SAFETY: the caller vouches for the call; the kernel clobbers rcx and r11 only.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") nr as isize => ret,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    ret
}

/// Loads a call from the arguments of a function: its number, and a pointer to its arguments.
macro_rules! load_call {
    () => {
        "mov rax, rdi
         mov r11, rsi
         mov rdi, [r11]
         mov rsi, [r11 + 8]
         mov rdx, [r11 + 16]
         mov r10, [r11 + 24]
         mov r8, [r11 + 32]
         mov r9, [r11 + 40]"
    };
}

/// Makes a system call that may sleep, unless a signal has been noted for the current
/// context: then, or if one is noted just before the kernel is entered, returns
/// [`INTERRUPTED`]. A signal during the call makes the kernel return EINTR, because the
/// host's handlers are installed without SA_RESTART.
///
/// The signal handler moves a thread found between `start` and the system call instruction
/// to `interrupted` (see [`interrupted_target`]), so no signal can slip in between.
///
/// # Safety
/// As unsafe as the call itself; a context must be adopted.
#[unsafe(naked)]
pub unsafe extern "C" fn syscall_interruptible(nr: u64, args: *const [u64; 6]) -> isize {
    naked_asm!(
        load_call!(),
        ".globl relive_interruptible_start",
        ".hidden relive_interruptible_start",
        "relive_interruptible_start:",
        "cmp dword ptr gs:[{pending}], 0",
        "jne relive_interrupted",
        ".globl relive_interruptible_end",
        ".hidden relive_interruptible_end",
        "relive_interruptible_end:",
        "syscall",
        ".globl relive_interruptible_made",
        ".hidden relive_interruptible_made",
        "relive_interruptible_made:",
        "ret",
        ".globl relive_interrupted",
        ".hidden relive_interrupted",
        "relive_interrupted:",
        "mov rax, {interrupted}",
        "ret",
        pending = const off::PENDING,
        interrupted = const INTERRUPTED,
    )
}

/// As [`syscall`], at an address that the signal handler knows (see [`is_behind_call`]). A call of
/// the guest may send its own thread a signal with any siginfo (rt_tgsigqueueinfo(2) allows every
/// `si_code` to oneself), and that signal comes as the kernel leaves the call.
///
/// # Safety
/// As unsafe as the call itself.
#[unsafe(naked)]
pub unsafe extern "C" fn syscall_marked(nr: u64, args: *const [u64; 6]) -> isize {
    naked_asm!(
        load_call!(),
        "syscall",
        ".globl relive_marked_made",
        ".hidden relive_marked_made",
        "relive_marked_made:",
        "ret",
    )
}

unsafe extern "C" {
    safe static relive_interruptible_start: u8;
    safe static relive_interruptible_end: u8;
    safe static relive_interruptible_made: u8;
    safe static relive_interrupted: u8;
    safe static relive_marked_made: u8;
}

/// For the signal handler: whether a signal that interrupted `rip` was sent, for any `si_code`,
/// because the thread has just left a call of the guest. The instruction there only returns and
/// does not fault.
#[must_use]
pub fn is_behind_call(rip: u64) -> bool {
    rip == &raw const relive_marked_made as u64
        || rip == &raw const relive_interruptible_made as u64
}

/// For the signal handler: the address to move a thread interrupted at `rip` to, if it is just
/// before an interruptible system call.
#[must_use]
pub fn interrupted_target(rip: u64) -> Option<u64> {
    let (start, end) = (
        &raw const relive_interruptible_start as u64,
        &raw const relive_interruptible_end as u64,
    );
    (start..=end)
        .contains(&rip)
        .then_some(&raw const relive_interrupted as u64)
}

/// Ends the process at once with `code`, with all its threads.
pub fn exit_group(code: i32) -> ! {
    loop {
        // SAFETY: ends the process.
        unsafe { syscall(libc::SYS_exit_group as u64, [code as u64, 0, 0, 0, 0, 0]) };
    }
}

/// Ends the calling thread only.
///
/// # Safety
/// Nothing on the thread's stack is needed any more.
pub unsafe fn exit_thread(code: i32) -> ! {
    loop {
        // SAFETY: the caller is done with this thread.
        unsafe { syscall(libc::SYS_exit as u64, [code as u64, 0, 0, 0, 0, 0]) };
    }
}

/// Maps memory of zeros, private and writable, at a place of the kernel's choice; its first address. `flags` are more
/// of mmap(2).
///
/// # Errors
/// The kernel's error number.
pub fn map_zeros(len: u64, flags: i32) -> Result<u64, i32> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    let args = [0, len, prot as u64, flags as u64, u64::MAX, 0];
    // SAFETY: a fresh map; without an address it replaces nothing.
    match unsafe { syscall(libc::SYS_mmap as u64, args) } {
        at if at > 0 => Ok(at as u64),
        refused => Err(-refused as i32),
    }
}

/// The kernel's id of the calling thread.
#[must_use]
pub fn gettid() -> u32 {
    // SAFETY: reads an id.
    unsafe { syscall(libc::SYS_gettid as u64, [0; 6]) as u32 }
}

/// Whether the process has a thread of this id, by a signal 0 to it: nothing is sent.
#[must_use]
pub fn has_thread(process: u32, thread: u32) -> bool {
    let args = [process.into(), thread.into(), 0, 0, 0, 0];
    // SAFETY: asks, and sends nothing.
    unsafe { syscall(libc::SYS_tgkill as u64, args) == 0 }
}

/// The status of an open file, by the call that takes no path. (The standard library's takes an
/// empty one, and no filter can see that.)
///
/// # Errors
/// The kernel's error number.
pub fn fstat(fd: i32) -> Result<libc::stat, i32> {
    // SAFETY: for plain integers all-zero bytes are a value.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let args = [fd as u64, &raw mut stat as u64, 0, 0, 0, 0];
    // SAFETY: fills the structure.
    match unsafe { syscall(libc::SYS_fstat as u64, args) } {
        0 => Ok(stat),
        e => Err(-e as i32),
    }
}

/// Sleeps while `*word == expected`, at most `timeout_ms`; spurious returns are possible.
pub fn futex_wait(word: &std::sync::atomic::AtomicU32, expected: u32, timeout_ms: Option<u32>) {
    let ts = timeout_ms.map(|ms| libc::timespec {
        tv_sec: i64::from(ms / 1000),
        tv_nsec: i64::from(ms % 1000) * 1_000_000,
    });
    let ts_ptr = ts.as_ref().map_or(0, |t| &raw const *t as u64);
    // SAFETY: the word outlives the call; FUTEX_WAIT (not private: words may be in memory
    // shared between processes) reads the word and the timeout only.
    unsafe {
        syscall(
            libc::SYS_futex as u64,
            [
                word.as_ptr() as u64,
                libc::FUTEX_WAIT as u64,
                u64::from(expected),
                ts_ptr,
                0,
                0,
            ],
        );
    }
}

/// Wakes up to `n` sleepers on `word`.
pub fn futex_wake(word: &std::sync::atomic::AtomicU32, n: u32) {
    // SAFETY: FUTEX_WAKE does not touch memory.
    unsafe {
        syscall(
            libc::SYS_futex as u64,
            [
                word.as_ptr() as u64,
                libc::FUTEX_WAKE as u64,
                u64::from(n),
                0,
                0,
                0,
            ],
        )
    };
}
