//! System calls that only answer: no memory that the kernel writes, no descriptor that comes or
//! goes, no sleep, no state of the engine. They take a short way through recording and replay, which
//! must have the same effect as the way of all other calls (`syscall::syscall`); a call with anything
//! out of the ordinary is left to that.

use relive_host::{GuestAddr, Reg};
use relive_kabi::{Arg, Blocks, Changes, Dir, FdEffect, Replay, Row, SubTable, Transfer};

use super::buffers::points;
use super::{hooks, own};
use crate::call::astray::is_astray;
use crate::call::{go_behind, registers};
use crate::shm::Logged;
use crate::task::Task;

/// The properties of a plain call.
#[derive(Clone, Copy)]
struct Plain {
    /// Number of its arguments.
    arguments: u8,
    /// Those that are addresses, as bits.
    pointers: u8,
    /// Those that are paths.
    paths: u8,
    /// Those that are descriptors.
    descriptors: u8,
}

/// The plain calls by their numbers. Process-wide: a table that is computed when Relive is built, as each process would
/// pay for it at its start.
static PLAIN: [Option<Plain>; 512] = {
    let mut plain = [None; 512];
    let mut i = 0;
    while i < relive_kabi::TABLE.len() {
        let row = &relive_kabi::TABLE[i];
        if is_plain(row) && (row.nr as usize) < plain.len() {
            plain[row.nr as usize] = Some(Plain::of(row));
        }
        i += 1;
    }
    plain
};

impl Plain {
    const fn of(row: &Row) -> Self {
        let mut plain = Self {
            arguments: row.args.len() as u8,
            pointers: 0,
            paths: 0,
            descriptors: 0,
        };
        let mut i = 0;
        while i < row.args.len() {
            let (arg, bit) = (row.args[i], 1 << i);
            if points(arg) {
                plain.pointers |= bit;
            }
            match arg {
                Arg::Str => plain.paths |= bit,
                Arg::Fd | Arg::DirFd => plain.descriptors |= bit,
                _ => {}
            }
            i += 1;
        }
        plain
    }
}

const fn is_plain(row: &Row) -> bool {
    let mut i = 0;
    while i < row.args.len() {
        let harmless = match row.args[i] {
            Arg::Str | Arg::StrVec => true,
            Arg::Buf { dir, .. } => matches!(dir, Dir::In),
            other => other.is_value(),
        };
        if !harmless {
            return false;
        }
        i += 1;
    }
    matches!(row.replay, Replay::Apply)
        && matches!(row.blocks, Blocks::Never)
        && matches!(row.fds, FdEffect::None)
        && matches!(row.sub, SubTable::None)
        && matches!(row.changes, Changes::Nothing)
        && matches!(row.input, Transfer::None)
        && matches!(row.output, Transfer::None)
        && !hooks::has(row.nr)
}

/// Handles the call at hand, whose next instruction is `next`, if it is plain. `false`: it is not
/// plain, or the tape has another event; nothing has been done.
///
/// # Errors
/// Its event is lost.
#[inline(always)]
pub fn answer(task: &mut Task, next: GuestAddr) -> Logged<bool> {
    let nr = u64::from(task.ctx.reg(Reg::Rax) as u32);
    let known = usize::try_from(nr).ok().and_then(|nr| PLAIN.get(nr));
    let Some(plain) = known.copied().flatten() else {
        return Ok(false);
    };
    // A mask is still to be restored after an earlier call, or this call is to be counted or logged.
    if task.signals.saved_mask.is_some()
        || crate::stats::wanted()
        || tracing::enabled!(target: "syscall", tracing::Level::DEBUG)
    {
        return Ok(false);
    }
    let args = registers(&task.ctx);
    if own::arguments(plain.pointers).any(|i| args[i] != 0 && is_astray(args[i]))
        || own::arguments(plain.descriptors).any(|i| own::may_be(task, args[i]))
        || plain.paths != 0 && task.has_company()
        || own::arguments(plain.paths).any(|i| own::may_name(task, args[i]))
    {
        return Ok(false);
    }
    let mode = task.mode();
    let Some(result) = mode.plain_call(task, nr, &args, plain.arguments.into())? else {
        return Ok(false);
    };
    task.at_event();
    go_behind(&mut task.ctx, next);
    task.ctx.set_reg(Reg::Rax, result as u64);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_writes_sleeps_or_has_a_hook_is_not_plain() {
        let plain = |nr: i64| PLAIN[nr as usize].is_some();
        for nr in [
            libc::SYS_read,
            libc::SYS_write,
            libc::SYS_close,
            libc::SYS_dup,
            libc::SYS_brk,
            libc::SYS_kill,
            libc::SYS_fstat,
            libc::SYS_ftruncate,
            libc::SYS_fcntl,
            libc::SYS_io_uring_setup,
            libc::SYS_getcpu,
        ] {
            assert!(!plain(nr), "{nr}");
        }
        for nr in [libc::SYS_getppid, libc::SYS_getuid, libc::SYS_lseek] {
            assert!(plain(nr), "{nr}");
        }
        let lseek = PLAIN[libc::SYS_lseek as usize].expect("it only answers");
        assert_eq!((lseek.arguments, lseek.pointers), (3, 0));
        let access = PLAIN[libc::SYS_access as usize].expect("it only answers");
        assert_eq!((access.arguments, access.pointers), (2, 1));
    }
}
