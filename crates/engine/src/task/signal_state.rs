//! A thread's signal state, as plain data: its mask, its alternate stack, the pending signals, the
//! call that a signal has interrupted. It must know nothing of tasks.

use std::collections::VecDeque;

use relive_host::signal::Mask;
use serde::{Deserialize, Serialize};

use crate::siginfo::SigInfo;

/// One thread's signal state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskSignals {
    /// The signals that the guest blocks.
    pub mask: Mask,
    /// The mask to go back to when a call with a temporary mask (sigsuspend, ppoll…) ends.
    pub saved_mask: Option<Mask>,
    /// Alternate stack: address, flags, size.
    pub altstack: AltStack,
    /// Signals with synchronous numbers that came while the guest blocks them.
    #[serde(with = "crate::encoding::strings")]
    pub held: VecDeque<SigInfo>,
    /// A system call that a signal interrupted.
    pub restart: Option<Interrupted>,
    /// The last fault: every signal frame shows it.
    pub trap: Trap,
}

impl TaskSignals {
    /// The same as a replay has it: pending signals are the kernel's and the recorder's alone.
    #[must_use]
    pub fn recorded(&self) -> Self {
        Self {
            held: VecDeque::new(),
            ..self.clone()
        }
    }
}

/// The parts of a fault that a signal frame shows besides the siginfo.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trap {
    /// Processor exception number.
    pub trapno: u64,
    /// Its error code.
    pub err: u64,
    /// Faulting address of the last page fault.
    pub cr2: u64,
}

/// sigaltstack(2).
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AltStack {
    /// Lowest address.
    pub sp: u64,
    /// SS_* flags as they were set; whether a thread is on the stack is not kept here.
    pub flags: i32,
    /// Bytes; 0 = none.
    pub size: u64,
}

/// The alternate stack is none while a handler runs on it, so that code which switches stacks may
/// use it again (sigaltstack(2)).
pub(crate) const SS_AUTODISARM: i32 = i32::MIN;

/// The smallest stack that sigaltstack(2) takes.
const MINSIGSTKSZ: u64 = 2048;

impl AltStack {
    /// The one of a new thread, and while a handler has the stack to itself (`SS_AUTODISARM`).
    pub const RESET: Self = Self {
        sp: 0,
        flags: libc::SS_DISABLE,
        size: 0,
    };

    /// The one of a new program: the kernel forgets the stack and keeps the flags, which show in the
    /// frames of signals.
    #[must_use]
    pub fn after_exec(self) -> Self {
        Self {
            flags: self.flags,
            ..Self::default()
        }
    }

    /// Whether a stack pointer is on it.
    #[must_use]
    pub fn holds(&self, sp: u64) -> bool {
        self.size != 0 && self.flags & SS_AUTODISARM == 0 && self.reaches(sp)
    }

    /// Whether an address is on it, regardless of its flags.
    #[must_use]
    pub fn reaches(&self, at: u64) -> bool {
        at > self.sp && at - self.sp <= self.size
    }
}

impl TaskSignals {
    /// Sets the alternate stack from a `stack_t`, as sigaltstack(2) does for a thread with this stack
    /// pointer.
    ///
    /// # Errors
    /// Its errno (negative).
    pub fn set_altstack(&mut self, stack: &[u8; 24], sp: u64) -> Result<(), i64> {
        let word = |i: usize| u64::from_le_bytes(stack[i..i + 8].try_into().unwrap_or_default());
        let flags = word(8) as i32;
        if self.altstack.holds(sp) {
            return Err(-i64::from(libc::EPERM));
        }
        self.altstack = match flags & !SS_AUTODISARM {
            libc::SS_DISABLE => AltStack {
                flags,
                ..AltStack::default()
            },
            0 | libc::SS_ONSTACK if word(16) < MINSIGSTKSZ => {
                return Err(-i64::from(libc::ENOMEM));
            }
            0 | libc::SS_ONSTACK => AltStack {
                sp: word(0),
                flags,
                size: word(16),
            },
            _ => return Err(-i64::from(libc::EINVAL)),
        };
        Ok(())
    }
}

/// A system call that is either restarted or fails with EINTR, before the decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupted {
    /// Its number, for `rax`.
    pub nr: u32,
    /// Always made again (an exec that has not begun).
    pub always: bool,
    /// Whether a handler with SA_RESTART restarts it.
    pub with_handler: bool,
    /// Whether it is restarted when no handler runs.
    pub without_handler: bool,
}
