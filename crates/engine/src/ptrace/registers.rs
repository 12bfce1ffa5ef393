//! The registers of a stopped tracee as ptrace(2) shows them (`struct user_regs_struct`), and the
//! changes that a tracer may make. Must never load a value that the guest could not have loaded itself.

use relive_host::{Reg, cpu, layout};

use crate::signals::xstate;
use crate::task::Task;
use crate::trap_flag::TrapFlag;

/// Words of `struct user_regs_struct`.
pub const WORDS: usize = 27;
/// Its bytes.
pub const BYTES: usize = 8 * WORDS;
/// The registers as words.
pub type Words = [u64; WORDS];

/// Places of words in it.
pub const R11: usize = 6;
const RAX: usize = 10;
const RCX: usize = 11;
/// The number of the call at hand; negative: none.
pub const ORIG_RAX: usize = 15;
/// The instruction pointer.
pub const RIP: usize = 16;
const FLAGS: usize = 18;
/// The stack pointer.
pub const RSP: usize = 19;
const FS_BASE: usize = 21;
const GS_BASE: usize = 22;

const GENERAL: [(usize, Reg); 16] = [
    (0, Reg::R15),
    (1, Reg::R14),
    (2, Reg::R13),
    (3, Reg::R12),
    (4, Reg::Rbp),
    (5, Reg::Rbx),
    (R11, Reg::R11),
    (7, Reg::R10),
    (8, Reg::R9),
    (9, Reg::R8),
    (RAX, Reg::Rax),
    (RCX, Reg::Rcx),
    (12, Reg::Rdx),
    (13, Reg::Rsi),
    (14, Reg::Rdi),
    (RSP, Reg::Rsp),
];

const CS: u64 = 0x33;
const SS: u64 = 0x2b;
/// The flags that a tracer may change: the arithmetic ones, TF, DF, AC and RF, of which the last has no effect.
const USER_FLAGS: u64 = 0x4_0cd5;

/// The registers of a task that is between two instructions, and about to make no call.
#[must_use]
pub fn shown(task: &Task) -> Words {
    let mut words = [0; WORDS];
    for (at, reg) in GENERAL {
        words[at] = task.ctx.reg(reg);
    }
    words[ORIG_RAX] = u64::MAX;
    if let Some(call) = &task.signals.restart {
        // The kernel's internal ERESTARTNOINTR, ERESTARTSYS, ERESTARTNOHAND.
        let code: i64 = match (call.always, call.with_handler) {
            (true, _) => -513,
            (false, true) => -512,
            (false, false) => -514,
        };
        (words[RAX], words[ORIG_RAX]) = (code as u64, call.nr.into());
    }
    words[RIP] = task.ctx.rip;
    words[17] = CS;
    words[FLAGS] = task.ctx.rflags | task.trap_flag.bit() | 0x202;
    words[20] = SS;
    (words[FS_BASE], words[GS_BASE]) = (task.ctx.guest_fs, task.ctx.guest_gs);
    words
}

/// Those of a task at its `syscall` instruction: as the kernel shows them at the entry of the call.
#[must_use]
pub fn at_call(task: &Task) -> Words {
    let mut words = shown(task);
    words[ORIG_RAX] = words[RAX];
    words[RAX] = -i64::from(libc::ENOSYS) as u64;
    words[RIP] += 2;
    (words[RCX], words[R11]) = (words[RIP], task.ctx.rflags);
    words
}

/// Whether a tracer may set these registers.
#[must_use]
pub fn are_good(words: &Words) -> bool {
    let base = |at: usize| words[at] < layout::FS_END;
    words[17] == CS && words[20] == SS && base(FS_BASE) && base(GS_BASE)
}

/// Turns registers that a tracer has changed at the entry of a call into those of a task that makes the
/// call: at its `syscall` instruction. `None`: it makes none.
#[must_use]
pub fn of_call(task: &Task, words: &Words) -> Option<Words> {
    if (words[ORIG_RAX] as i32) < 0 {
        return None;
    }
    let before = shown(task);
    let mut words = *words;
    (words[RAX], words[ORIG_RAX]) = (words[ORIG_RAX], u64::MAX);
    words[RIP] = before[RIP];
    (words[RCX], words[R11]) = (before[RCX], before[R11]);
    Some(words)
}

/// Sets them; the same in a replay. A call that waits for its restart goes on waiting if the tracer has
/// left it alone.
pub fn set(task: &mut Task, words: &Words) {
    let before = shown(task);
    for (at, reg) in GENERAL {
        if words[at] != before[at] {
            task.ctx.set_reg(reg, words[at]);
        }
    }
    if task.signals.restart.is_some()
        && (words[RAX], words[ORIG_RAX], words[RIP]) != (before[RAX], before[ORIG_RAX], before[RIP])
    {
        task.signals.restart = None;
        task.ctx.set_reg(Reg::Rax, words[RAX]);
    }
    task.ctx.rip = words[RIP];
    task.ctx.rflags = (task.ctx.rflags & !USER_FLAGS) | (words[FLAGS] & USER_FLAGS) | 0x202;
    task.trap_flag = TrapFlag::of(words[FLAGS]);
    (task.ctx.guest_fs, task.ctx.guest_gs) = (words[FS_BASE], words[GS_BASE]);
}

/// From the bytes of the structure.
#[must_use]
pub fn of_bytes(bytes: &[u8]) -> Words {
    let mut words = [0; WORDS];
    for (word, piece) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(piece.try_into().unwrap_or_default());
    }
    words
}

/// The bytes of the structure.
#[must_use]
pub fn bytes(words: &Words) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// The extended state as NT_X86_XSTATE shows it.
#[must_use]
pub fn extended(task: &Task) -> Vec<u8> {
    let mut area = xstate::saved(&task.ctx.vectors());
    area.truncate(cpu::xsave_size());
    area[464..512].fill(0);
    area[464..472].copy_from_slice(&cpu::xcr0().to_le_bytes());
    area
}

/// Sets it. Bytes that the processor would refuse are left out.
pub fn set_extended(task: &mut Task, bytes: &[u8]) {
    let size = cpu::xsave_size().min(bytes.len());
    if size < 576 {
        return;
    }
    let bits = u64::from_le_bytes(bytes[512..520].try_into().unwrap_or_default()) & cpu::xcr0();
    let area = task.ctx.vectors_mut();
    area.reset();
    area.0[..24].copy_from_slice(&bytes[..24]);
    let mxcsr = u32::from_le_bytes(bytes[24..28].try_into().unwrap_or_default());
    area.0[24..28].copy_from_slice(&(mxcsr & cpu::mxcsr_mask()).to_le_bytes());
    area.0[32..416].copy_from_slice(&bytes[32..416]);
    area.0[576..size].copy_from_slice(&bytes[576..size]);
    area.set_xstate_bv(bits);
}
