//! Reading clocks without leaving translated code.
//!
//! Translated code calls one of these routines, by way of the context, on the host's stack with the
//! guest's registers live. A routine reads a clock, or takes the recorded reading, writes the
//! values to the instruction's destinations, and returns; all other registers and the flags stay as
//! they are. If it cannot answer it returns [`LEAVE`] bytes behind its return address, with nothing
//! changed, and the code leaves to the host.
//!
//! Vector registers and FS are the guest's all the while, so nothing here may be compiled code but
//! the kernel's own vDSO, which [`keeps_vectors`] checks.
//!
//! A signal that is noted meanwhile finds the thread outside of the code cache: the common way out
//! checks `pending` and cuts the budget itself, and the handler does so behind that check
//! ([`past_pending_check`]).

pub(crate) mod entry;
mod vdso;

use std::arch::naked_asm;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

pub use entry::{CLOCK, CLOCKS, CPU, Entry, READABLE, ROUTINES, TSC, TSCP, Window, is_readable};
pub use vdso::{Vdso, keeps_vectors};

use crate::context::{Context, LANES, off};

/// The return address when the host has to act, relative to the usual one.
pub const LEAVE: u32 = 11;

/// Behaviour of the routines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// They leave to the host.
    None,
    /// They read.
    Live,
    /// They read and append to the window.
    Record,
    /// They take from the window, not from the clock.
    Replay,
}

type Routines = [u64; ROUTINES];

/// Routines of contexts made from now on. Process-wide: translated code of all threads calls the same ones.
static ROUTINES_IN_USE: AtomicPtr<Routines> = AtomicPtr::new(std::ptr::null_mut());
/// The function of the vDSO that they call for clocks. Process-wide: as above.
static CLOCK_FUNCTION: AtomicU64 = AtomicU64::new(0);
/// The function of the vDSO that they call for the processor's number. Process-wide: as above.
static CPU_FUNCTION: AtomicU64 = AtomicU64::new(0);

/// Sets the behaviour of the routines in the threads of this process; before any context is made.
/// Without a vDSO only [`Use::Replay`] reads clocks.
pub fn install(what: Use, vdso: Option<Vdso>) {
    let at = |f: unsafe extern "C" fn()| f as *const () as u64;
    let clocks = |clock, cpu| match vdso {
        Some(_) => [at(cpu), at(clock)],
        None => [at(leave); 2],
    };
    let (counters, [cpu, clock]) = match what {
        Use::None => ([at(leave); 2], [at(leave); 2]),
        Use::Live => ([at(tsc_live), at(tscp_live)], clocks(clock_live, cpu_live)),
        Use::Record => (
            [at(tsc_record), at(tscp_record)],
            clocks(clock_record, cpu_record),
        ),
        Use::Replay => (
            [at(tsc_replay), at(tscp_replay)],
            [at(cpu_replay), at(clock_replay)],
        ),
    };
    let mut all = [0; ROUTINES];
    (all[TSC], all[TSCP], all[CPU], all[CLOCK]) = (counters[0], counters[1], cpu, clock);
    CLOCK_FUNCTION.store(vdso.map_or(0, |v| v.clock), Ordering::Relaxed);
    CPU_FUNCTION.store(vdso.map_or(0, |v| v.cpu), Ordering::Relaxed);
    // Once in a process, and for its whole life.
    ROUTINES_IN_USE.store(Box::into_raw(Box::new(all)), Ordering::Release);
}

/// The initial values for a new context: the routines, and the two functions of the vDSO.
pub(crate) fn in_use() -> (Routines, [u64; 2]) {
    let routines = ROUTINES_IN_USE.load(Ordering::Acquire);
    // SAFETY: only `install` stores here, memory that it never frees.
    let routines = unsafe { routines.as_ref() };
    let functions = [&CLOCK_FUNCTION, &CPU_FUNCTION].map(|f| f.load(Ordering::Relaxed));
    (routines.copied().unwrap_or_else(leaving), functions)
}

/// Routines that only leave to the host.
pub(crate) fn leaving() -> Routines {
    [leave as *const () as u64; ROUTINES]
}

impl Context {
    /// Whether every reading of the time stamp counter leaves to the host.
    pub fn leave_counter(&mut self, leave: bool) {
        let routines = if leave { leaving() } else { in_use().0 };
        (self.routines[TSC], self.routines[TSCP]) = (routines[TSC], routines[TSCP]);
    }
}

/// For the signal handler: whether `rip` is in the common way out, behind its check of `pending`.
#[must_use]
pub fn past_pending_check(rip: u64) -> bool {
    (&raw const relive_reading_checked as u64..&raw const relive_reading_end as u64).contains(&rip)
}

unsafe extern "C" {
    safe static relive_reading_checked: u8;
    safe static relive_reading_end: u8;
}

/// Saves the registers that the vDSO may change. From the top: flags, r11 to r8, rdi, rsi, rcx,
/// rdx, rax, return address; the stack is aligned to 16 bytes.
macro_rules! save {
    () => {
        "push rax
         push rdx
         push rcx
         push rsi
         push rdi
         push r8
         push r9
         push r10
         push r11
         lahf
         seto al
         push rax"
    };
}

/// With the value in r8, the extra in r9d, the source in esi: appends them.
macro_rules! append {
    () => {
        "mov rcx, gs:[{next}]
         cmp rcx, gs:[{start}]
         jne 3f
         call {ticks}
         mov gs:[{first}], rax
         3:
         mov [rcx], r8
         mov [rcx + 8], esi
         mov [rcx + 12], r9d
         add rcx, 16
         mov gs:[{next}], rcx"
    };
}

/// Leaves if the window is used up.
macro_rules! need_window {
    () => {
        "mov rcx, gs:[{next}]
         cmp rcx, gs:[{end}]
         je {leave}"
    };
}

/// With the source in esi: takes value and extra, as [`append`] has them, out of the window.
macro_rules! take {
    () => {
        "mov rcx, gs:[{next}]
         cmp rcx, gs:[{end}]
         je {leave}
         cmp [rcx + 8], esi
         jne {leave}
         cmp rcx, gs:[{start}]
         jne 3f
         call {ticks}
         cmp rax, gs:[{first}]
         jne {leave}
         3:
         mov r8, [rcx]
         mov r9d, [rcx + 12]
         add rcx, 16
         mov gs:[{next}], rcx"
    };
}

/// Sets the saved rcx, rdx and rax from value and extra.
macro_rules! put_clock {
    () => {
        "mov [rsp + 72], r8
         mov [rsp + 64], r9
         jmp {done}"
    };
}
macro_rules! put_counter {
    () => {
        "mov eax, r8d
         shr r8, 32
         mov [rsp + 72], rax
         mov [rsp + 64], r8
         jmp {done}"
    };
}

/// Reads the clock in edi by the kernel's vDSO: seconds to r8, nanoseconds to r9. A clock that it
/// does not read yields -1 nanoseconds, and is no reading.
macro_rules! call_clock {
    () => {
        "sub rsp, 16
         mov rsi, rsp
         call qword ptr gs:[{clock}]
         test eax, eax
         pop r8
         pop r9
         jne {leave}"
    };
}
macro_rules! check_clock {
    () => {
        "cmp edi, 31
         ja {unreadable}
         mov eax, {readable}
         bt eax, edi
         jnc {unreadable}"
    };
}
macro_rules! call_cpu {
    () => {
        "sub rsp, 16
         mov rdi, rsp
         lea rsi, [rsp + 8]
         xor edx, edx
         call qword ptr gs:[{cpu}]
         test eax, eax
         pop r8
         pop r9
         jne {leave}
         mov r8d, r8d
         mov r9d, r9d"
    };
}

/// One routine: its parts, and the operands that they refer to.
macro_rules! routine {
    ($name:ident: $($part:expr),+; $($key:ident = $value:expr),*; $($sym:ident => $to:ident),*) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(save!(), $($part,)+ $($key = const $value,)* $($sym = sym $to,)*)
        }
    };
}

routine!(leave: "jmp {leave}"; ; leave => go);
routine!(clock_live: check_clock!(), call_clock!(), put_clock!();
    readable = READABLE, clock = off::CLOCK;
    unreadable => unreadable, leave => go, done => done);
routine!(clock_record: check_clock!(), need_window!(), call_clock!(),
        "mov esi, [rsp + 40]", "add esi, {clocks}", append!(), put_clock!();
    readable = READABLE, clock = off::CLOCK, clocks = CLOCKS, next = off::READ_NEXT,
        start = off::READ_START, end = off::READ_END, first = off::READ_FIRST;
    unreadable => unreadable, leave => go, done => done, ticks => ticks);
routine!(clock_replay: check_clock!(), "lea esi, [rdi + {clocks}]", take!(), put_clock!();
    readable = READABLE, clocks = CLOCKS, next = off::READ_NEXT, start = off::READ_START,
        end = off::READ_END, first = off::READ_FIRST;
    unreadable => unreadable, leave => go, done => done, ticks => ticks);

routine!(cpu_live: call_cpu!(), put_clock!(); cpu = off::GETCPU; leave => go, done => done);
routine!(cpu_record: need_window!(), call_cpu!(), "mov esi, {source}", append!(), put_clock!();
    cpu = off::GETCPU, source = CPU, next = off::READ_NEXT, start = off::READ_START,
        end = off::READ_END, first = off::READ_FIRST;
    leave => go, done => done, ticks => ticks);
routine!(cpu_replay: "mov esi, {source}", take!(), put_clock!();
    source = CPU, next = off::READ_NEXT, start = off::READ_START, end = off::READ_END,
        first = off::READ_FIRST;
    leave => go, done => done, ticks => ticks);

/// The counter, and the processor's number if requested, to r8 and r9d.
macro_rules! call_tsc {
    () => {
        "rdtsc
         shl rdx, 32
         or rax, rdx
         mov r8, rax
         xor r9d, r9d"
    };
}
macro_rules! call_tscp {
    () => {
        "rdtscp
         shl rdx, 32
         or rax, rdx
         mov r8, rax
         mov r9d, ecx"
    };
}

routine!(tsc_live: call_tsc!(), put_counter!(); ; done => done);
routine!(tsc_record: need_window!(), call_tsc!(), "mov esi, {source}", append!(), put_counter!();
    source = TSC, next = off::READ_NEXT, start = off::READ_START, end = off::READ_END,
        first = off::READ_FIRST;
    leave => go, done => done, ticks => ticks);
routine!(tsc_replay: "mov esi, {source}", take!(), put_counter!();
    source = TSC, next = off::READ_NEXT, start = off::READ_START, end = off::READ_END,
        first = off::READ_FIRST;
    leave => go, done => done, ticks => ticks);

routine!(tscp_live: call_tscp!(), "mov [rsp + 56], r9", put_counter!(); ; done => done);
routine!(tscp_record: need_window!(), call_tscp!(), "mov esi, {source}", append!(),
        "mov [rsp + 56], r9", put_counter!();
    source = TSCP, next = off::READ_NEXT, start = off::READ_START, end = off::READ_END,
        first = off::READ_FIRST;
    leave => go, done => done, ticks => ticks);
routine!(tscp_replay: "mov esi, {source}", take!(), "mov [rsp + 56], r9", put_counter!();
    source = TSCP, next = off::READ_NEXT, start = off::READ_START, end = off::READ_END,
        first = off::READ_FIRST;
    leave => go, done => done, ticks => ticks);

/// The ticks of the thread to rax, as `Context::ticks` counts them; changes rdx.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn ticks() {
    naked_asm!(
        "mov rax, gs:[{base}]",
        "mov edx, 8 * {count}",
        "2:",
        "add rax, gs:[rdx + {dealt} - 8]",
        "sub rax, gs:[rdx + {lanes} - 8]",
        "sub edx, 8",
        "jnz 2b",
        "ret",
        base = const off::TICKS_BASE,
        count = const LANES,
        dealt = const off::DEALT,
        lanes = const off::LANES,
    )
}

/// A clock that is not read here.
#[unsafe(naked)]
unsafe extern "C" fn unreadable() {
    naked_asm!("mov qword ptr [rsp + 64], -1", "jmp {done}", done = sym done)
}

/// The host has to act.
#[unsafe(naked)]
unsafe extern "C" fn go() {
    naked_asm!(
        "add qword ptr [rsp + 80], {leave}",
        "jmp {done}",
        leave = const LEAVE,
        done = sym done,
    )
}

/// The way back to translated code.
#[unsafe(naked)]
unsafe extern "C" fn done() {
    naked_asm!(
        "cmp qword ptr gs:[{pending}], 0",
        // From here on a signal handler cuts the budget itself.
        ".globl relive_reading_checked",
        ".hidden relive_reading_checked",
        "relive_reading_checked:",
        "jne 4f",
        "7:",
        "pop rax",
        "add al, 0x7f",
        "sahf",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rdi",
        "pop rsi",
        "pop rcx",
        "pop rdx",
        "pop rax",
        "ret",
        ".globl relive_reading_end",
        ".hidden relive_reading_end",
        "relive_reading_end:",
        // A signal was noted, or the thread is wanted: let it leave at its next tick.
        "4:",
        crate::ticks::cut_lanes!(),
        "jmp 7b",
        pending = const off::PENDING,
        lanes = const off::LANES,
        dealt = const off::DEALT,
        count = const LANES,
    )
}
