//! A thread that leaves the recording: a function of the guest is called by a debugger, in a
//! copy of the replay that is thrown away afterwards. Nothing of this may ever be reached
//! while the replay is to go on, and nothing of it reaches the outside: the few system calls
//! that are answered touch the copy's own memory only.

use std::sync::atomic::{AtomicU64, Ordering};

use relive_dbt::{Stop, TrapKind};
use relive_host::{GuestAddr, Reg, copy};

use super::drive::Driver;
use crate::failure::{Failure, Result};
use crate::machine::machine;
use crate::signals::signo;
use crate::space::{Region, Traits};
use crate::tape::Tape;
use crate::task::Task;
use crate::timeline::{Hit, Ran, What, Why};
use crate::{instr, kernel, stops};

/// Ticks between two looks for orders.
const SLICE: i64 = 1 << 20;
/// Most bytes of output that are kept.
const OUTPUT_MAX: usize = 1 << 20;
/// Most bytes that a copy may map, all in all.
const MAPPED_MAX: u64 = 1 << 30;

/// What this copy has mapped.
static MAPPED: AtomicU64 = AtomicU64::new(0);

impl Driver {
    /// Runs the thread of a slot until a breakpoint, a signal or an order. Returns also what
    /// it wrote to its standard streams.
    pub fn inferior_call(
        &mut self,
        slot: u32,
        wanted: &mut dyn FnMut() -> bool,
    ) -> Result<(Ran, Vec<u8>)> {
        self.make_current(slot)?;
        if let Some(task) = self.task_mut(slot) {
            // Clocks show the present time, and the recording's readings stay what they are.
            task.tape = Tape::Blank;
        }
        let mut output = Vec::new();
        let mut first = true;
        let why = loop {
            let task = self.task_mut(slot);
            let task = task.ok_or_else(|| Failure::internal("the thread is there"))?;
            task.ctx.grant(SLICE);
            let stop = task.go(first);
            first = false;
            match self.after_stop(slot, stop, &mut output)? {
                Next::On => {}
                Next::Alone => first = true,
                Next::Stop(what) => break Why::Hit(self.hit_of_call(what)),
            }
            if wanted() {
                break Why::Interrupted;
            }
        };
        let status = self.status();
        let ran = Ran {
            why,
            last: None,
            status,
            blind: false,
        };
        Ok((ran, output))
    }

    fn hit_of_call(&self, what: What) -> Hit {
        let status = self.status();
        Hit {
            what,
            before: status.point,
            slot: status.slot,
            pc: status.pc,
        }
    }

    fn after_stop(&mut self, slot: u32, stop: Stop, output: &mut Vec<u8>) -> Result<Next> {
        let here = self.tasks().find(|t| t.slot == slot).map(|t| t.ctx.rip);
        let here = here.filter(|pc| self.breakpoints.contains(pc));
        let task = self.task_mut(slot);
        let task = task.ok_or_else(|| Failure::internal("the thread is there"))?;
        Ok(match stop {
            Stop::Budget { .. } | Stop::Pause { .. } | Stop::Stepped { .. } => Next::On,
            Stop::Watch { .. } => Next::Alone,
            Stop::Breakpoint { pc } => Next::Stop(What::Breakpoint(pc.0)),
            Stop::Syscall { next, .. } => match syscall(task, next, output) {
                None => Next::On,
                Some(why) => {
                    output.extend_from_slice(why.as_bytes());
                    Next::Stop(What::Signal(libc::SIGSYS))
                }
            },
            Stop::Instr { op, next, .. } => {
                let values = instr::values(task, &op);
                match op.apply(&mut task.ctx, next, values) {
                    Ok(()) => Next::On,
                    Err(_) => Next::Stop(What::Signal(libc::SIGSEGV)),
                }
            }
            Stop::Fault { .. } => Next::Stop(What::Signal(signo(&task.ctx.fault.siginfo))),
            // Where a called function returns to nothing can be executed, if that is on the stack.
            Stop::NoCode { .. } | Stop::BadTarget { .. } => Next::Stop(match here {
                Some(pc) => What::Breakpoint(pc),
                None => What::Signal(libc::SIGSEGV),
            }),
            Stop::Trap { kind, .. } => Next::Stop(What::Signal(match kind {
                TrapKind::Undefined => libc::SIGILL,
                TrapKind::Overflow | TrapKind::Gate => libc::SIGSEGV,
                TrapKind::Int3 | TrapKind::Int1 | TrapKind::Step => libc::SIGTRAP,
            })),
            stop => {
                stops::handle(task, stop)?;
                Next::On
            }
        })
    }
}

enum Next {
    /// It runs on.
    On,
    /// It runs on with one instruction alone.
    Alone,
    /// It has to be told.
    Stop(What),
}

/// Answers a system call away from the recording. Words: it can not go on, and why.
fn syscall(task: &mut Task, next: GuestAddr, output: &mut Vec<u8>) -> Option<&'static str> {
    let nr = task.ctx.reg(Reg::Rax) as i64;
    let arg = |r| task.ctx.reg(r);
    let (a, b, c) = (arg(Reg::Rdi), arg(Reg::Rsi), arg(Reg::Rdx));
    let refused = -i64::from(libc::ENOSYS);
    let result = match nr {
        libc::SYS_exit | libc::SYS_exit_group => {
            return Some("away from the recording the program would end here\n");
        }
        libc::SYS_futex if waits(task, a, b, c) => {
            return Some(
                "away from the recording the program waits here for another thread, which does \
                 not run\n",
            );
        }
        libc::SYS_write if a == 1 || a == 2 => write(b, c, output),
        libc::SYS_writev if a == 1 || a == 2 => (0..c.min(1024))
            .try_fold(0, |sum, k| {
                let base = task.read_u64(b + 16 * k)?;
                let n = task.read_u64(b + 16 * k + 8)?;
                match write(base, n, output) {
                    e if e < 0 => Err(e),
                    n => Ok(sum + n),
                }
            })
            .unwrap_or_else(|e| e),
        libc::SYS_getpid => i64::from(task.process.pid),
        libc::SYS_gettid => i64::from(task.tid),
        libc::SYS_mmap => map(task, b),
        libc::SYS_munmap | libc::SYS_madvise | libc::SYS_rt_sigprocmask => 0,
        libc::SYS_sched_yield | libc::SYS_futex => 0,
        libc::SYS_brk => machine().memory().space.brk.1 as i64,
        _ => refused,
    };
    task.ctx.set_reg(Reg::Rax, result as u64);
    kernel::go_behind(task, next);
    None
}

/// Whether a futex call would sleep: the word has the value that the caller expects, or a lock
/// has an owner.
fn waits(task: &Task, word: u64, operation: u64, value: u64) -> bool {
    let mut bytes = [0; 4];
    if copy::read(GuestAddr(word), &mut bytes).is_err() {
        return false;
    }
    let now = u32::from_le_bytes(bytes);
    match operation as i32 & libc::FUTEX_CMD_MASK {
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => now == value as u32,
        libc::FUTEX_LOCK_PI => now & libc::FUTEX_TID_MASK != task.tid,
        _ => false,
    }
}

fn write(addr: u64, len: u64, output: &mut Vec<u8>) -> i64 {
    let room = OUTPUT_MAX.saturating_sub(output.len());
    let mut bytes = vec![0; (len as usize).min(room)];
    if copy::read(GuestAddr(addr), &mut bytes).is_err() {
        return -i64::from(libc::EFAULT);
    }
    output.extend_from_slice(&bytes);
    len as i64
}

/// Anonymous private memory anywhere, which is all that an allocator asks for.
fn map(task: &Task, len: u64) -> i64 {
    const WANTED: i32 = libc::MAP_ANONYMOUS | libc::MAP_PRIVATE;
    let flags = task.ctx.reg(Reg::R10) as i32;
    let prot = task.ctx.reg(Reg::Rdx) as u32 & (crate::space::READ | crate::space::WRITE);
    if flags & WANTED != WANTED || flags & libc::MAP_FIXED != 0 || len == 0 {
        return -i64::from(libc::ENOSYS);
    }
    if len > MAPPED_MAX - MAPPED.load(Ordering::Relaxed) {
        return -i64::from(libc::ENOMEM);
    }
    let len = len.next_multiple_of(relive_host::addr::PAGE);
    let mut memory = machine().memory();
    let Some(start) = memory.space.find_free(len, false) else {
        return -i64::from(libc::ENOMEM);
    };
    let region = Region {
        start,
        end: start + len,
        prot,
        shared: false,
        common: false,
        name: crate::memory::unnamed(),
        offset: 0,
        inode: 0,
        traits: Traits::default(),
    };
    match memory.map(region, crate::memory::Source::Anon) {
        Ok(()) => {
            MAPPED.fetch_add(len, Ordering::Relaxed);
            start as i64
        }
        Err(e) => -i64::from(e),
    }
}
