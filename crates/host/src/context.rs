//! The register context of a guest thread, as translated code and the host share it.
//!
//! While a host thread may run guest code its GS base points to one `Context`; emitted code
//! reaches the fields as `gs:[offset]`. The layout is therefore an interface: offsets are
//! exported as constants and fields are never reordered without thought for the emitter.

use std::mem::offset_of;

/// Index of a general register, in the order of its encoding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
#[allow(missing_docs)]
pub enum Reg {
    Rax = 0,
    Rcx = 1,
    Rdx = 2,
    Rbx = 3,
    Rsp = 4,
    Rbp = 5,
    Rsi = 6,
    Rdi = 7,
    R8 = 8,
    R9 = 9,
    R10 = 10,
    R11 = 11,
    R12 = 12,
    R13 = 13,
    R14 = 14,
    R15 = 15,
}

/// Bytes kept for the XSAVE area: the largest standard-format area of the components in
/// [`crate::cpu::XSAVE_MASK`] (legacy, SSE, AVX, AVX-512) is 2696 bytes.
pub const XSAVE_BYTES: usize = 2752;

/// Exit number (in [`Context::exit`]): a host fault happened in the code cache.
pub const EXIT_FAULT: u32 = u32::MAX;

/// How many asynchronous signals a thread can have noted and not yet delivered. Noting one
/// blocks all others but the synchronous numbers, so more than two are hardly possible.
pub const SIGNAL_SLOTS: usize = 8;

/// What a synchronous host fault in the code cache looked like.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Fault {
    /// Address of the faulting instruction (in the code cache).
    pub cache_pc: u64,
    /// The kernel's `siginfo_t`, byte for byte.
    pub siginfo: [u8; 128],
    /// Trap number (`REG_TRAPNO`) and error code (`REG_ERR`) from the host's frame.
    pub trapno: u64,
    /// See `trapno`.
    pub err: u64,
}

/// One guest thread's registers and what emitted code needs besides. Lives in its own
/// page-aligned mapping.
#[repr(C, align(64))]
pub struct Context {
    /// Ticks left. A tick site subtracts one and leaves to the host when the result is 0.
    pub budget: i64,
    /// The guest's rcx while an indirect branch is in flight or a flag-free tick runs.
    pub spill_rcx: u64,
    /// Further spill slots for the emitter.
    pub spill: [u64; 3],
    /// Which exit was taken: written by exit stubs, or [`EXIT_FAULT`].
    pub exit: u32,
    /// Non-zero when an asynchronous signal has been noted (or the thread is otherwise
    /// wanted by the host): checked before every interruptible system call.
    pub pending: u32,
    /// Where exit stubs jump: `exit_to_host`.
    pub exit_fn: u64,
    /// This context's own address.
    pub this: u64,
    /// General registers in encoding order, valid while the host runs.
    pub gpr: [u64; 16],
    /// RFLAGS, valid while the host runs.
    pub rflags: u64,
    /// The guest's program counter, kept by the host.
    pub rip: u64,
    /// Code cache address that `enter` jumps to.
    pub entry: u64,
    /// The guest's FS base.
    pub guest_fs: u64,
    /// The host thread's FS base.
    pub host_fs: u64,
    /// The host stack pointer while the guest runs.
    pub host_rsp: u64,
    /// Budget as it was granted (see [`Context::grant`]).
    pub granted: i64,
    /// Ticks taken away from `budget` to force an early exit.
    pub withheld: i64,
    /// Ticks counted up to the last grant.
    pub ticks_base: u64,
    /// Number of noted signals.
    pub noted: u32,
    /// Padding.
    pub reserved: u32,
    /// The noted signals' `siginfo_t`, in order of arrival.
    pub signals: [[u8; 128]; SIGNAL_SLOTS],
    /// The last fault in the cache (when `exit == EXIT_FAULT`).
    pub fault: Fault,
    /// Vector and x87 state: standard-format XSAVE area.
    pub xsave: XsaveArea,
}

/// A standard-format (not compacted) XSAVE area.
#[repr(C, align(64))]
#[derive(Clone)]
pub struct XsaveArea(pub [u8; XSAVE_BYTES]);

/// Offsets for emitted code.
pub mod off {
    use super::{Context, offset_of};
    /// [`Context::budget`]
    pub const BUDGET: i32 = offset_of!(Context, budget) as i32;
    /// [`Context::spill_rcx`]
    pub const SPILL_RCX: i32 = offset_of!(Context, spill_rcx) as i32;
    /// [`Context::spill`], first element
    pub const SPILL: i32 = offset_of!(Context, spill) as i32;
    /// [`Context::exit`]
    pub const EXIT: i32 = offset_of!(Context, exit) as i32;
    /// [`Context::pending`]
    pub const PENDING: i32 = offset_of!(Context, pending) as i32;
    /// [`Context::exit_fn`]
    pub const EXIT_FN: i32 = offset_of!(Context, exit_fn) as i32;
    /// [`Context::this`]
    pub const THIS: i32 = offset_of!(Context, this) as i32;
    /// [`Context::gpr`], first element
    pub const GPR: i32 = offset_of!(Context, gpr) as i32;
    /// [`Context::rflags`]
    pub const RFLAGS: i32 = offset_of!(Context, rflags) as i32;
    /// [`Context::entry`]
    pub const ENTRY: i32 = offset_of!(Context, entry) as i32;
    /// [`Context::guest_fs`]
    pub const GUEST_FS: i32 = offset_of!(Context, guest_fs) as i32;
    /// [`Context::host_fs`]
    pub const HOST_FS: i32 = offset_of!(Context, host_fs) as i32;
    /// [`Context::host_rsp`]
    pub const HOST_RSP: i32 = offset_of!(Context, host_rsp) as i32;
    /// [`Context::withheld`]
    pub const WITHHELD: i32 = offset_of!(Context, withheld) as i32;
    /// [`Context::xsave`]
    pub const XSAVE: i32 = offset_of!(Context, xsave) as i32;
}

impl Context {
    /// A fresh context: all registers zero, vector state initial, no budget.
    /// `host_fs` is filled in by [`crate::enter::adopt`].
    #[must_use]
    pub fn new() -> Box<Self> {
        // SAFETY: every field is plain integers, for which all-zero bytes are a value; the
        // allocation has the type's own layout.
        let mut ctx: Box<Self> = unsafe { Box::new_zeroed().assume_init() };
        ctx.this = &raw const *ctx as u64;
        ctx.exit_fn = crate::enter::exit_to_host as *const () as u64;
        ctx.rflags = 0x202;
        ctx.xsave.reset();
        ctx
    }

    /// One general register.
    #[must_use]
    pub fn reg(&self, reg: Reg) -> u64 {
        self.gpr[reg as usize]
    }

    /// Sets one general register.
    pub fn set_reg(&mut self, reg: Reg, value: u64) {
        self.gpr[reg as usize] = value;
    }

    /// Ticks this thread has executed so far.
    #[must_use]
    pub fn ticks(&self) -> u64 {
        self.ticks_base + (self.granted - self.withheld - self.budget) as u64
    }

    /// Lets the thread run for `ticks` more ticks (at least 1): the tick that brings the
    /// budget to 0 leaves to the host.
    ///
    /// A signal that is noted meanwhile changes nothing here: the handler leaves the budget
    /// alone while the host runs, and `enter` looks at `pending`.
    pub fn grant(&mut self, ticks: i64) {
        assert!(ticks > 0, "a grant of no ticks would never end");
        let now = self.ticks();
        self.ticks_base = now;
        self.granted = ticks;
        self.withheld = 0;
        self.budget = ticks;
    }

    /// Counts one tick on behalf of a tick site that the host resolved itself. Returns
    /// whether the budget is now used up.
    pub fn count_tick(&mut self) -> bool {
        self.budget -= 1;
        self.budget == 0
    }
}

impl XsaveArea {
    /// Offset of XSTATE_BV in the XSAVE header (Intel SDM vol. 1, 13.4.2).
    pub const XSTATE_BV: usize = 512;

    /// The initial state: x87 control word 0x37f, MXCSR 0x1f80, everything else zero.
    pub fn reset(&mut self) {
        self.0.fill(0);
        self.0[0..2].copy_from_slice(&0x37f_u16.to_le_bytes());
        self.0[24..28].copy_from_slice(&0x1f80_u32.to_le_bytes());
    }

    /// Which components are not in their initial state.
    #[must_use]
    pub fn xstate_bv(&self) -> u64 {
        let mut b = [0; 8];
        b.copy_from_slice(&self.0[Self::XSTATE_BV..Self::XSTATE_BV + 8]);
        u64::from_le_bytes(b)
    }

    /// Sets [`XsaveArea::xstate_bv`].
    pub fn set_xstate_bv(&mut self, bv: u64) {
        self.0[Self::XSTATE_BV..Self::XSTATE_BV + 8].copy_from_slice(&bv.to_le_bytes());
    }
}
