//! Host signals: the one handler of every signal, alternate stacks, masks.
//!
//! The handler never runs guest-visible policy. A fault in the code cache becomes an exit; a fault
//! in the guest copy loop becomes its error. An asynchronous signal is noted in the context, all
//! others are blocked until the engine has handled it, and the tick budget is cut so that the
//! thread leaves translated code at its next tick site.
//!
//! The handler may interrupt anything, with the guest's FS loaded: the assembly entry
//! swaps FS first; nothing here allocates, locks or uses thread-local storage.

use std::arch::asm;
use std::arch::naked_asm;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use crate::call_out::is_call_out;
use crate::context::{Context, EXIT_FAULT, LANES, SIGNAL_SLOTS, off};
use crate::permissions::range;
use crate::{copy, enter, layout, order, reading, sent_signal, sys};

/// The signals that a fault of the guest raises: never blocked in the host.
pub const SYNCHRONOUS: [i32; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
];

/// A kernel signal mask (bit n-1 for signal n).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Mask(pub u64);

impl Mask {
    /// Every signal but the synchronous ones.
    #[must_use]
    pub const fn all_async() -> Self {
        let mut m = u64::MAX;
        let mut i = 0;
        while i < SYNCHRONOUS.len() {
            m &= !(1 << (SYNCHRONOUS[i] - 1));
            i += 1;
        }
        Self(m)
    }

    /// Whether `sig` is in the mask.
    #[must_use]
    pub const fn has(self, sig: i32) -> bool {
        self.0 >> (sig - 1) & 1 == 1
    }

    /// The mask that the host thread may set: without the synchronous signals.
    #[must_use]
    pub const fn for_host(self) -> Self {
        Self(self.0 & Self::all_async().0)
    }
}

/// The kernel's `struct sigaction` (not libc's).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelAction {
    /// Handler address, or 0 (default), 1 (ignore).
    pub handler: u64,
    /// SA_* flags.
    pub flags: u64,
    /// Return address of the handler (SA_RESTORER).
    pub restorer: u64,
    /// Signals blocked during the handler.
    pub mask: u64,
}

const SA_RESTORER: u64 = 0x0400_0000;

/// The disposition of a signal number in this host process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disposition {
    /// The kernel's default action.
    Default,
    /// Ignored.
    Ignore,
    /// The host's handler notes it.
    Handler,
}

/// Sets the disposition of one signal. Failure (SIGKILL, SIGSTOP) is ignored: those have only one.
pub fn set_disposition(sig: i32, what: Disposition) {
    set_disposition_with(sig, what, 0);
}

/// As [`set_disposition`], with those of the guest's SA_* flags that change the kernel's actions
/// besides calling the handler (SA_NOCLDSTOP, SA_NOCLDWAIT).
pub fn set_disposition_with(sig: i32, what: Disposition, flags: u64) {
    const KEPT: u64 = (libc::SA_NOCLDSTOP | libc::SA_NOCLDWAIT) as u64;
    let handler = match what {
        Disposition::Default => 0,
        Disposition::Ignore => 1,
        Disposition::Handler => handler_entry as *const () as u64,
    };
    let action = KernelAction {
        handler,
        flags: SA_RESTORER | libc::SA_SIGINFO as u64 | libc::SA_ONSTACK as u64 | flags & KEPT,
        restorer: restorer as *const () as u64,
        mask: u64::MAX,
    };
    // SAFETY: the handler obeys the rules of this module.
    unsafe { set_action(sig, &action) };
}

/// Gives a signal an action. Failure is ignored, as above.
///
/// # Safety
/// Its handler may run at any time.
unsafe fn set_action(sig: i32, action: &KernelAction) {
    // SAFETY: the structure outlives the call; the caller answers for the handler.
    unsafe {
        sys::syscall(
            libc::SYS_rt_sigaction as u64,
            [sig as u64, std::ptr::from_ref(action) as u64, 0, 8, 0, 0],
        )
    };
}

/// The action of a signal in this process.
#[must_use]
pub fn action_of(sig: i32) -> KernelAction {
    let mut action = KernelAction::default();
    // SAFETY: fills the structure.
    unsafe {
        sys::syscall(
            libc::SYS_rt_sigaction as u64,
            [sig as u64, 0, &raw mut action as u64, 8, 0, 0],
        )
    };
    action
}

/// Whether a signal is ignored by this process.
#[must_use]
pub fn is_ignored(sig: i32) -> bool {
    action_of(sig).handler == 1
}

/// The signal that the C library lets through to each thread that it makes (nptl(7), `SIGCANCEL`).
pub const TO_NEWBORNS: i32 = 32;

/// Signals that the C library keeps for itself (nptl(7)).
const OF_LIBRARY: [i32; 2] = [TO_NEWBORNS, 33];

/// Makes something that may give the signals of the C library its own actions: those of the guest, which has a C library too, stay.
pub fn with_actions_of_library<R>(make: impl FnOnce() -> R) -> R {
    let before = OF_LIBRARY.map(|sig| (sig, action_of(sig)));
    let made = make();
    for (sig, action) in before {
        // SAFETY: the action was the process's own before.
        unsafe { set_action(sig, &action) };
    }
    made
}

/// Dies of a signal, without a core file.
pub fn die_of(sig: i32) -> ! {
    set_disposition(sig, Disposition::Default);
    // SAFETY: sets a limit of this process, which is about to end, and sends the signal.
    unsafe {
        let none = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        // Another one that is pending would come first.
        set_mask(Mask(!(1 << (sig - 1))));
        // To this thread: a signal to the process may land on another one, later.
        libc::syscall(libc::SYS_tgkill, libc::getpid(), sys::gettid(), sig);
        if libc::getpid() == 1 {
            fault_of(sig);
        }
    }
    sys::exit_group(128 + sig)
}

/// Raises the signal of a fault by that fault: the first process of a pid namespace dies of no other.
fn fault_of(sig: i32) {
    // SAFETY: nothing is touched but registers that are given up, and the signal ends the process.
    unsafe {
        match sig {
            libc::SIGSEGV => asm!("hlt"),
            libc::SIGILL => asm!("ud2"),
            libc::SIGTRAP => asm!("int3"),
            libc::SIGFPE => {
                asm!("div {0:e}", in(reg) 0, inout("eax") 0 => _, inout("edx") 0 => _);
            }
            _ => {}
        }
    }
}

/// Sets the calling thread's mask, returns the old one.
pub fn set_mask(mask: Mask) -> Mask {
    let mut old = 0u64;
    // SAFETY: both masks outlive the call.
    unsafe {
        sys::syscall(
            libc::SYS_rt_sigprocmask as u64,
            [
                libc::SIG_SETMASK as u64,
                &raw const mask.0 as u64,
                &raw mut old as u64,
                8,
                0,
                0,
            ],
        );
    }
    Mask(old)
}

/// Sets up an alternate signal stack for the calling thread (never freed: it lives as long as the
/// thread).
///
/// # Errors
/// The kernel's error number: it gives no memory.
pub fn install_stack() -> Result<(), i32> {
    const SIZE: usize = 64 * 1024;
    let base = sys::map_zeros(SIZE as u64, 0)?;
    // SAFETY: the stack is used for nothing else; sigaltstack only reads the structure.
    unsafe {
        let stack = libc::stack_t {
            ss_sp: base as *mut libc::c_void,
            ss_flags: 0,
            ss_size: SIZE,
        };
        sys::syscall(
            libc::SYS_sigaltstack as u64,
            [&raw const stack as u64, 0, 0, 0, 0, 0],
        );
    }
    Ok(())
}

/// Called for a fault of the host that is not expected: must not return.
pub type HostFault = fn(signo: i32, rip: u64, addr: u64) -> !;

/// The function for faults of the host. Process-wide: a signal handler calls it.
static HOST_FAULT: AtomicUsize = AtomicUsize::new(0);

/// Sets the function to call on a fault of the host.
pub fn on_host_fault(f: HostFault) {
    HOST_FAULT.store(f as usize, Ordering::Relaxed);
}

#[unsafe(naked)]
unsafe extern "C" fn restorer() {
    naked_asm!("mov eax, 15", "syscall", "ud2")
}

#[unsafe(naked)]
unsafe extern "C" fn handler_entry() {
    naked_asm!(
        "push rbx",
        "rdfsbase rbx",
        "mov rax, gs:[{host_fs}]",
        "wrfsbase rax",
        "mov rcx, gs:[{this}]",
        // The guest's direction and alignment check flags may be set. Those that rt_sigreturn(2) leaves as
        // they are then, ID and NT, stay the guest's.
        "pushfq",
        "and dword ptr [rsp], {kept}",
        "popfq",
        "call {handler}",
        "wrfsbase rbx",
        "pop rbx",
        "ret",
        host_fs = const off::HOST_FS,
        this = const off::THIS,
        handler = sym handler,
        kept = const KEPT_FLAGS,
    )
}

const REG_RCX: usize = libc::REG_RCX as usize;
const REG_RIP: usize = libc::REG_RIP as usize;

/// The flags of interrupted code that the kernel does not restore behind a handler
/// (arch/x86/kernel/signal_64.c, `FIX_EFLAGS`): ID and NT.
const KEPT_FLAGS: i32 = 1 << 21 | 1 << 14;

/// Page fault error code: an instruction could not be fetched.
const FETCH: i64 = 1 << 4;

unsafe extern "C" fn handler(
    sig: i32,
    info: *const [u8; 128],
    uc: *mut libc::ucontext_t,
    ctx: *mut Context,
) {
    // SAFETY: the kernel passes valid frames; GS holds this thread's adopted context, which
    // only this thread touches.
    let (info, uc, ctx) = unsafe { (&*info, &mut *uc, &mut *ctx) };
    let code = i32::from_le_bytes([info[8], info[9], info[10], info[11]]);
    let stack_size = uc.uc_stack.ss_size;
    let gregs = &mut uc.uc_mcontext.gregs;
    let rip = gregs[REG_RIP] as u64;
    // si_code > 0: sent by the kernel for a fault, not by kill, tgkill or sigqueue. But a thread
    // may send itself any siginfo, as crash handlers do that pass on the one they received.
    if SYNCHRONOUS.contains(&sig) && code > 0 && !sys::is_behind_call(rip) {
        if layout::in_cache(rip) {
            order::let_go(ctx);
            ctx.exit = EXIT_FAULT;
            ctx.fault.cache_pc = rip;
            ctx.fault.siginfo = *info;
            ctx.fault.trapno = gregs[libc::REG_TRAPNO as usize] as u64;
            ctx.fault.err = gregs[libc::REG_ERR as usize] as u64;
            gregs[REG_RIP] = enter::exit_to_host as *const () as i64;
        } else if let Some(fixup) = copy::fixup_target(rip) {
            gregs[REG_RIP] = fixup as i64;
        } else if gregs[libc::REG_ERR as usize] & FETCH != 0
            && layout::in_shadow(gregs[libc::REG_RSP as usize] as u64)
        {
            // A paired return from a stack of another alignment has read parts of two addresses as
            // one. No such mixture is an address of code.
            gregs[REG_RIP] = layout::SHADOW_MISS as i64;
        } else {
            let addr = u64::from_le_bytes(info[16..24].try_into().unwrap_or_default());
            let f = HOST_FAULT.load(Ordering::Relaxed);
            if f != 0 {
                // SAFETY: only `on_host_fault` stores here, a `HostFault`.
                let f: HostFault = unsafe { std::mem::transmute(f) };
                f(sig, rip, addr);
            }
            sys::exit_group(125);
        }
        return;
    }
    // It has no signal stack yet.
    let is_newborn = stack_size == 0;
    if is_newborn && !SYNCHRONOUS.contains(&sig) {
        return keeps_for_later(sig, info, uc);
    }
    let calls_out = is_call_out(sig, info);
    let already = ctx.pending != 0 || ctx.wanted != 0;
    if calls_out {
        ctx.wanted = 1;
    } else {
        sent_signal::note(sig, info);
        note(info, ctx);
        // SAFETY: uc_sigmask's first word is the kernel's mask, restored by sigreturn.
        unsafe {
            (&raw mut uc.uc_sigmask)
                .cast::<u64>()
                .write(Mask::all_async().0)
        };
    }
    // In host code nothing is forced, as it may be in the middle of counting: `enter` and the
    // routines of readings and of order check `pending` and `wanted` themselves. Past that check,
    // and in the cache, the handler forces the exit, as in a routine that counts nothing.
    let behind_the_look = enter::past_pending_check(rip)
        || reading::past_pending_check(rip)
        || order::past_pending_check(rip)
        || range::is_in(rip);
    if !already && (layout::in_cache(rip) || behind_the_look) {
        force_exit(ctx, gregs, rip);
    }
    if !calls_out && let Some(target) = sys::interrupted_target(rip) {
        gregs[REG_RIP] = target as i64;
    }
}

/// A signal has come to a thread that has just been made, and cannot note it: GS is still its maker's. All are blocked there from the start on but
/// [`TO_NEWBORNS`]; a guest uses it for timers. It comes again when the thread has the mask of the guest's.
fn keeps_for_later(sig: i32, info: &[u8; 128], uc: &mut libc::ucontext_t) {
    // SAFETY: as in `handler`; the kernel reads the siginfo.
    unsafe {
        (&raw mut uc.uc_sigmask)
            .cast::<u64>()
            .write(Mask::all_async().0);
        let process = sys::syscall(libc::SYS_getpid as u64, [0; 6]) as u64;
        let thread = u64::from(sys::gettid());
        let args = [process, thread, sig as u64, info.as_ptr() as u64, 0, 0];
        // The handler's own mask keeps it back until it returns.
        sys::syscall(libc::SYS_rt_tgsigqueueinfo as u64, args);
    }
}

fn note(info: &[u8; 128], ctx: &mut Context) {
    let n = ctx.noted as usize;
    // Further ones can only be asynchronous signals with synchronous numbers, sent faster than the
    // thread reaches a safe point: standard signals coalesce, and so do these.
    if n < SIGNAL_SLOTS {
        ctx.signals[n] = *info;
        ctx.noted += 1;
    }
    ctx.pending = 1;
}

/// Makes the running thread leave at its next tick. A tick site that loads its lane into rcx (the
/// flag-free form) and is interrupted between load and store is recognised by its bytes; there the
/// value in rcx is changed instead of the one in memory.
fn force_exit(ctx: &mut Context, gregs: &mut [i64; 23], rip: u64) {
    let mut in_flight = None;
    if layout::in_cache(rip) {
        // SAFETY: the code cache is one mapping, with so many bytes behind its last code.
        let code = unsafe { (rip as *const [u8; READ_AHEAD]).read_unaligned() };
        // The amount that will still be subtracted from rcx.
        let (store, rest) = if code[..4] == TICK_LEA {
            (&code[4..], 1)
        } else {
            (&code[..9], 0)
        };
        if let Some(lane) = tick_store(store) {
            ctx.dealt[lane] -= gregs[REG_RCX] - rest;
            gregs[REG_RCX] = rest;
            in_flight = Some(lane);
        }
    }
    ctx.cut(in_flight);
}

/// Bytes that a signal's handler reads from the interrupted pc on: a tick's countdown and its store. The code cache
/// must have so many behind its last code.
pub const READ_AHEAD: usize = TICK_LEA.len() + STORE.len() + 4;

/// `lea rcx, [rcx-1]`
pub const TICK_LEA: [u8; 4] = [0x48, 0x8d, 0x49, 0xff];

/// `mov gs:[disp32], rcx`, without the displacement.
const STORE: [u8; 5] = [0x65, 0x48, 0x89, 0x0c, 0x25];

/// The lane that this code stores rcx to, if it does.
#[must_use]
pub fn tick_store(code: &[u8]) -> Option<usize> {
    let (store, disp) = code.split_first_chunk::<5>()?;
    let disp = i32::from_le_bytes(*disp.first_chunk()?);
    let lane = usize::try_from((disp - off::LANES) / 8).ok()?;
    (*store == STORE && lane < LANES && disp >= off::LANES).then_some(lane)
}
