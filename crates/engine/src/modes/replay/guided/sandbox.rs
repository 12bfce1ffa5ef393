//! System calls of an inferior call: the few that are answered touch the memory of the copy that makes
//! them, and nothing else. Their output to the standard streams is kept for the debugger.

use std::sync::Mutex;

use relive_host::{GuestAddr, Reg, copy};

use crate::call::go_behind;
use crate::failure::{self, answered};
use crate::space::{Region, RegionTraits};
use crate::task::Task;

/// Most bytes of output that are kept.
const OUTPUT_MAX: usize = 1 << 20;
/// Most bytes that a copy may map, all in all.
const MAPPED_MAX: u64 = 1 << 30;

/// The effects of the calls of this copy.
struct Sandbox {
    output: Vec<u8>,
    /// Bytes that have been mapped.
    mapped: u64,
    /// The last call cannot be answered.
    refused: bool,
    /// The signal that an instruction has raised.
    raised: Option<i32>,
}

/// The effects of this copy. Process-wide: a copy of a replay answers one called function and ends.
static SANDBOX: Mutex<Sandbox> = Mutex::new(Sandbox {
    output: Vec::new(),
    mapped: 0,
    refused: false,
    raised: None,
});

fn with<R>(f: impl FnOnce(&mut Sandbox) -> R) -> R {
    f(&mut SANDBOX.lock().expect("no thread panics: panics abort"))
}

/// Whether the task stands at a call that cannot be answered, since the last look.
pub fn is_refused() -> bool {
    with(|s| std::mem::take(&mut s.refused))
}

/// An instruction raises a signal.
pub fn raise(sig: i32) {
    with(|s| s.raised = Some(sig));
}

/// The signal that has been raised, since the last look.
pub fn raised() -> Option<i32> {
    with(|s| s.raised.take())
}

/// The output to the standard streams since the last look.
pub fn take_output() -> Vec<u8> {
    with(|s| std::mem::take(&mut s.output))
}

/// Answers the system call that the task stands at, or refuses it and says why in its output.
///
/// # Errors
/// The guest's memory has changed by half.
pub fn answer(task: &mut Task) -> failure::Result<()> {
    with(|sandbox| match sandbox.syscall(task) {
        Ok(result) => {
            let result = result?;
            let next = GuestAddr(task.ctx.rip + 2);
            go_behind(&mut task.ctx, next);
            task.ctx.set_reg(Reg::Rax, result as u64);
            Ok(())
        }
        Err(why) => {
            sandbox.output.extend_from_slice(why.as_bytes());
            sandbox.refused = true;
            Ok(())
        }
    })
}

impl Sandbox {
    /// The result of a system call, or why it has none.
    fn syscall(&mut self, task: &Task) -> Result<failure::Result<i64>, &'static str> {
        let nr = task.ctx.reg(Reg::Rax) as i64;
        let arg = |r| task.ctx.reg(r);
        let (a, b, c) = (arg(Reg::Rdi), arg(Reg::Rsi), arg(Reg::Rdx));
        Ok(Ok(match nr {
            libc::SYS_exit | libc::SYS_exit_group => {
                return Err("away from the recording the program would end here\n");
            }
            libc::SYS_futex if waits(task, a, b, c) => {
                return Err(
                    "away from the recording the program waits here for another thread, which does \
                     not run\n",
                );
            }
            libc::SYS_write if a == 1 || a == 2 => self.write(b, c),
            libc::SYS_writev if a == 1 || a == 2 => self.writev(task, b, c),
            libc::SYS_getpid => i64::from(task.process.pid),
            libc::SYS_gettid => i64::from(task.tid),
            libc::SYS_mmap => return Ok(self.map(task, b)),
            libc::SYS_munmap | libc::SYS_madvise | libc::SYS_rt_sigprocmask => 0,
            libc::SYS_sched_yield | libc::SYS_futex => 0,
            libc::SYS_brk => task.machine().memory().space.brk.1 as i64,
            _ => -i64::from(libc::ENOSYS),
        }))
    }

    fn write(&mut self, addr: u64, len: u64) -> i64 {
        let room = OUTPUT_MAX.saturating_sub(self.output.len());
        let mut bytes = vec![0; (len as usize).min(room)];
        if copy::read(GuestAddr(addr), &mut bytes).is_err() {
            return -i64::from(libc::EFAULT);
        }
        self.output.extend_from_slice(&bytes);
        len as i64
    }

    fn writev(&mut self, task: &Task, list: u64, count: u64) -> i64 {
        (0..count.min(1024))
            .try_fold(0, |sum, k| {
                let base = task.read_u64(list + 16 * k)?;
                let n = task.read_u64(list + 16 * k + 8)?;
                match self.write(base, n) {
                    e if e < 0 => Err(e),
                    n => Ok(sum + n),
                }
            })
            .unwrap_or_else(|e| e)
    }

    /// Anonymous private memory anywhere, which is all that an allocator asks for.
    fn map(&mut self, task: &Task, len: u64) -> failure::Result<i64> {
        const WANTED: i32 = libc::MAP_ANONYMOUS | libc::MAP_PRIVATE;
        let flags = task.ctx.reg(Reg::R10) as i32;
        let prot = task.ctx.reg(Reg::Rdx) as u32 & (crate::space::READ | crate::space::WRITE);
        if flags & WANTED != WANTED || flags & libc::MAP_FIXED != 0 || len == 0 {
            return Ok(-i64::from(libc::ENOSYS));
        }
        if len > MAPPED_MAX - self.mapped {
            return Ok(-i64::from(libc::ENOMEM));
        }
        let len = len.next_multiple_of(relive_host::addr::PAGE);
        let mut memory = task.machine().memory();
        let Some(start) = memory.space.find_free(len, false) else {
            return Ok(-i64::from(libc::ENOMEM));
        };
        let region = Region {
            start,
            end: start + len,
            prot,
            shared: false,
            common: false,
            name: crate::map_names::unnamed(),
            offset: 0,
            inode: 0,
            copy: None,
            traits: RegionTraits::default(),
        };
        Ok(
            match answered(memory.map(region, crate::memory::Source::Anon))? {
                Ok(()) => {
                    self.mapped += len;
                    start as i64
                }
                Err(e) => e,
            },
        )
    }
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
