//! The register context of a guest thread, as translated code and the host share it.
//!
//! While a host thread may run guest code its GS base points to one `Context`; emitted code
//! reaches the fields as `gs:[offset]`. The layout is therefore an interface: offsets are
//! exported as constants and fields are never reordered without thought for the emitter.

pub mod off;

use crate::order::edge::{EDGES, Edge};
use crate::reading::entry::{ROUTINES, Window};
use crate::track::access::KINDS;

use std::sync::atomic::AtomicU64;

use serde::{Deserialize, Serialize};

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

/// Counters that share a thread's budget. Eight break the dependence through memory as well
/// as sixteen do (measured, times native: recursive fib 1.54 with one, 1.17 with eight;
/// sqlite 2.0 and 1.55).
pub const LANES: usize = 8;

/// A grant that no thread uses up.
pub const PLENTY: i64 = i64::MAX / 4;

/// Exit number (in [`Context::exit`]): a host fault happened in the code cache.
pub const EXIT_FAULT: u32 = u32::MAX;

/// Set in [`Context::exit`] by an exit that itself stores where it was taken: `rip` is the guest's
/// and `entry` is the cache entry behind the instruction there. Never set alone in an exit's
/// number.
pub const EXIT_TOLD: u32 = 1 << 30;

/// Set in [`Context::exit`], which is not [`EXIT_FAULT`], by an exit that the code cache describes:
/// the other bits are the offset of the description there.
pub const EXIT_DESCRIBED: u32 = 1 << 31;

/// How many asynchronous signals a thread can have noted and not yet delivered. Noting one
/// blocks all others but the synchronous numbers, so more than two are hardly possible.
pub const SIGNAL_SLOTS: usize = 8;

/// The data of a synchronous host fault in the code cache.
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

/// The address of the access in the kernel's `siginfo_t` of a fault (`si_addr`, sigaction(2)).
#[must_use]
pub fn fault_addr(siginfo: &[u8; 128]) -> u64 {
    u64::from_le_bytes(siginfo[16..24].try_into().unwrap_or_default())
}

/// One guest thread's registers, and other data of emitted code. It never moves, as emitted code
/// reaches it through GS.
#[repr(C, align(64))]
pub struct Context {
    /// Ticks left until the thread leaves to the host, in several counters: an entry of a
    /// fragment subtracts one from the counter that it was emitted with and leaves when the
    /// result is 0. One counter for all would chain every tick to the one before through
    /// memory. See [`Context::grant`].
    pub lanes: [i64; LANES],
    /// The guest's rcx while an indirect branch is in flight or a flag-free tick runs.
    pub spill_rcx: u64,
    /// Further spill slots for the emitter.
    pub spill: [u64; 3],
    /// Non-zero when an asynchronous signal has been noted: checked before every interruptible
    /// system call. Where translated code is entered it is checked as one word with `wanted`.
    pub pending: u32,
    /// Non-zero when another thread needs this one to leave translated code
    /// ([`crate::call_out::call_out`]); calls of the guest's do not end because of it.
    pub wanted: u32,
    /// The exit that was taken: written by exit stubs (see [`EXIT_TOLD`] and
    /// [`EXIT_DESCRIBED`]), or [`EXIT_FAULT`].
    pub exit: u32,
    /// Padding.
    pub reserved: u32,
    /// Jump target of exit stubs: `exit_to_host`.
    pub exit_fn: u64,
    /// This context's own address.
    pub this: u64,
    /// Target of the indirect branch through the hashed table that is in flight.
    pub target: u64,
    /// Number that the translator has given to that branch.
    pub site: u32,
    /// Guest address of the last paired return that was executed (low 32 bits: it lies in the
    /// low window).
    pub return_pc: u32,
    /// rcx, rsi and rdi as they were when the last repeated string instruction began: a fault
    /// in the middle of it shows them as they are there.
    pub string_start: [u64; 3],
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
    /// The guest's GS base. The processor's own is the host's: instructions with a GS operand
    /// are executed with this in FS.
    pub guest_gs: u64,
    /// The host thread's FS base.
    pub host_fs: u64,
    /// The host stack pointer while the guest runs.
    pub host_rsp: u64,
    /// Ticks dealt to the lanes, less those taken away to force an early exit.
    pub dealt: [i64; LANES],
    /// The spread of the ticks of the recent past over the lanes.
    pub(crate) weights: [u64; LANES],
    /// Ticks counted up to the last deal.
    pub(crate) ticks_base: u64,
    /// Ticks of the grant that were left at the last deal.
    pub(crate) left: i64,
    /// The grant may end this many ticks early.
    pub(crate) slack: i64,
    /// Number of noted signals.
    pub noted: u32,
    /// The noted signals' `siginfo_t`, in order of arrival.
    pub signals: [[u8; 128]; SIGNAL_SLOTS],
    /// The last fault in the cache (when `exit == EXIT_FAULT`).
    pub fault: Fault,
    /// Vector and x87 state, if [`Context::held`] says so.
    pub(crate) xsave: XsaveArea,
    /// Vector registers otherwise: 64 bytes each.
    pub(crate) vectors: Vectors,
    /// Mask registers.
    pub(crate) masks: [u64; 8],
    /// MXCSR, of the same moment.
    pub(crate) mxcsr: u32,
    /// The form in which registers are stored on the way out ([`crate::vectors`]).
    pub(crate) form: u32,
    /// The form in which they are stored now: 0 for `xsave`.
    pub(crate) held: u32,
    /// The x87 registers are in `xsave` while the rest is in another form: another context is adopted.
    pub(crate) x87_away: bool,
    /// Whether any of the first 16 vector registers has a bit above its lowest 128.
    pub(crate) upper: u8,
    /// Readings of clocks: see [`crate::reading`].
    pub readings: Window,
    /// The routines for them.
    pub(crate) routines: [u64; ROUTINES],
    /// The functions that the routines call: clock_gettime and getcpu of the kernel's vDSO.
    pub(crate) vdso: [u64; 2],
    /// Ordered operations that the thread has done: see [`crate::order`].
    pub ops: u64,
    /// The thread's number among those whose operations are ordered, from 1 on and below 2^31.
    pub order_id: u32,
    /// Edges in `edges`.
    pub(crate) edge_count: u32,
    /// The edges logged since the engine last took them; there since the context was made if
    /// [`crate::order::install`] was called before.
    pub(crate) edges: Option<Box<[Edge; EDGES]>>,
    /// Address of the object that the ordered instruction in flight holds, or 0.
    pub(crate) ordering: u64,
    /// Guest registers while an ordered instruction is in flight, and its prologue.
    pub order_spill: [u64; 2],
    /// Guest flags during this prologue.
    pub order_flags: u64,
    /// The routine that prologues call.
    pub(crate) order_fn: u64,
    /// Where ordered instructions wait: the operations that the thread may still do before it leaves in front of the
    /// next, as a negative number. 0: it leaves in front of its next one.
    pub to_edge: i64,
    /// There too: the operations that are complete, as other threads may read it. Stored behind the instruction.
    pub done: AtomicU64,
    /// Where memory is ordered by its lines: the table of the thread's permissions, or one that permits nothing. 0: none.
    /// See [`crate::permissions`].
    pub permissions: AtomicU64,
    /// There too: the places at which the thread has given lines up.
    pub marks: u64,
    /// Guest registers during the check of an access.
    pub permit_spill: [u64; 2],
    /// The access for which translated code has left: its address; and its bytes, with [`crate::permissions::WRITES`] if it
    /// writes, or 0 if the instruction tells.
    pub permit_at: u64,
    /// See there.
    pub permit_what: u64,
    /// The routine that looks at the lines of repeated stores and copies.
    pub(crate) range_fn: u64,
    /// The era of tracked accesses, as a key has it: see [`crate::track`].
    pub(crate) track_key: u64,
    /// Guest registers during the check of an access.
    pub track_spill: [u64; 2],
    /// The entries of the routine that checks call, by kind of access.
    pub(crate) track_fns: [u64; KINDS],
}

/// The vector registers, 64 bytes for each.
#[repr(C, align(64))]
pub(crate) struct Vectors(pub [[u8; 64]; 32]);

/// A standard-format (not compacted) XSAVE area.
#[repr(C, align(64))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct XsaveArea(#[serde(with = "serde_bytes")] pub [u8; XSAVE_BYTES]);

impl Default for XsaveArea {
    /// The initial state.
    fn default() -> Self {
        let mut area = Self([0; XSAVE_BYTES]);
        area.reset();
        area
    }
}

impl Context {
    /// One general register.
    #[must_use]
    pub fn reg(&self, reg: Reg) -> u64 {
        self.gpr[reg as usize]
    }

    /// Sets one general register.
    pub fn set_reg(&mut self, reg: Reg, value: u64) {
        self.gpr[reg as usize] = value;
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

    /// The components that are not in their initial state.
    #[must_use]
    pub fn xstate_bv(&self) -> u64 {
        let mut b = [0; 8];
        b.copy_from_slice(&self.0[Self::XSTATE_BV..Self::XSTATE_BV + 8]);
        u64::from_le_bytes(b)
    }

    /// Marks every component that has its initial value as being in its initial state, regardless
    /// of the processor's own mark, and clears the x87 pointers.
    pub fn settle(&mut self) {
        let zero = |area: &Self, at: (usize, usize)| area.0[at.0..at.1].iter().all(|b| *b == 0);
        self.forget_x87_pointers();
        let mut used = self.xstate_bv();
        // Control word, status and tags; registers. (Intel SDM vol. 1, 13.6 and 10.5.1.)
        if self.0[..2] == 0x37f_u16.to_le_bytes() && zero(self, (2, 6)) && zero(self, (32, 160)) {
            used &= !1;
        }
        if zero(self, (160, 416)) {
            used &= !2;
        }
        for (i, range) in crate::cpu::xsave_layout().ranges.iter().enumerate().skip(2) {
            if used >> i & 1 == 1 && zero(self, *range) {
                used &= !(1 << i);
            }
        }
        self.set_xstate_bv(used);
    }

    /// Clears the reserved bits of MXCSR: with one of them set, loading the area faults.
    pub fn drop_reserved_mxcsr(&mut self) {
        self.0[26..28].fill(0);
    }

    /// Clears opcode, instruction and operand pointer of the last x87 instruction, which FXSAVE
    /// and XSAVE store alike (Intel SDM vol. 1, 10.5.1).
    pub fn forget_x87_pointers(&mut self) {
        self.0[6..24].fill(0);
    }

    /// Sets [`XsaveArea::xstate_bv`].
    pub fn set_xstate_bv(&mut self, bv: u64) {
        self.0[Self::XSTATE_BV..Self::XSTATE_BV + 8].copy_from_slice(&bv.to_le_bytes());
    }
}
