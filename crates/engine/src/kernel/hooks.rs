//! Which calls have a hook: one table, by number.

use super::{
    Answer, Call, Reply, advice, clone, exec, fds, files, futex, kill, limits, locks, memory, misc,
    namespaces, own_memory, segments, tasks, users,
};
use crate::failure::Result;
use crate::signals::calls;
use crate::task::Task;

/// Code for one call. `answer` is what the tape says, in replay.
///
/// An *emulating* hook computes the result from the engine's own state in both modes (the
/// replay compares it with the tape); an *executing* hook makes the call live and repeats
/// its effect in replay.
pub type Hook = fn(&mut Task, &Call, Option<&Answer>) -> Result<Reply>;

const TABLE: &[(i64, Hook)] = &[
    (libc::SYS_mmap, memory::mmap),
    (libc::SYS_mprotect, memory::mprotect),
    (libc::SYS_munmap, memory::munmap),
    (libc::SYS_brk, memory::brk),
    (libc::SYS_shmat, segments::shmat),
    (libc::SYS_semctl, segments::semctl),
    (libc::SYS_shmdt, segments::shmdt),
    (libc::SYS_mremap, memory::mremap),
    (libc::SYS_madvise, advice::madvise),
    (libc::SYS_mincore, memory::mincore),
    (libc::SYS_msync, memory::msync),
    (libc::SYS_mlock, locks::range),
    (libc::SYS_mlock2, locks::range),
    (libc::SYS_munlock, locks::range),
    (libc::SYS_mlockall, locks::all),
    (libc::SYS_munlockall, locks::none),
    (libc::SYS_rt_sigaction, calls::rt_sigaction),
    (libc::SYS_rt_sigprocmask, calls::rt_sigprocmask),
    (libc::SYS_rt_sigreturn, calls::rt_sigreturn),
    (libc::SYS_sigaltstack, calls::sigaltstack),
    (libc::SYS_rt_sigsuspend, calls::rt_sigsuspend),
    (libc::SYS_rt_sigpending, calls::rt_sigpending),
    (libc::SYS_rt_sigtimedwait, calls::rt_sigtimedwait),
    (libc::SYS_rt_sigqueueinfo, kill::send),
    (libc::SYS_rt_tgsigqueueinfo, kill::send),
    (libc::SYS_pidfd_send_signal, kill::send),
    (libc::SYS_kill, kill::send),
    (libc::SYS_tkill, kill::send),
    (libc::SYS_tgkill, kill::send),
    (libc::SYS_signalfd, calls::plain),
    (libc::SYS_signalfd4, calls::plain),
    (libc::SYS_clone, clone::clone),
    (libc::SYS_clone3, clone::clone3),
    (libc::SYS_unshare, namespaces::unshare),
    (libc::SYS_futex_waitv, futex::waitv),
    (libc::SYS_process_vm_readv, own_memory::read_vectors),
    (libc::SYS_process_vm_writev, own_memory::write_vectors),
    (libc::SYS_read, own_memory::read),
    (libc::SYS_pread64, own_memory::read),
    (libc::SYS_readv, own_memory::read),
    (libc::SYS_preadv, own_memory::read),
    (libc::SYS_preadv2, own_memory::read),
    (libc::SYS_write, own_memory::write),
    (libc::SYS_pwrite64, own_memory::write),
    (libc::SYS_writev, own_memory::write),
    (libc::SYS_pwritev, own_memory::write),
    (libc::SYS_pwritev2, own_memory::write),
    (libc::SYS_fork, tasks::fork),
    (libc::SYS_vfork, clone::vfork),
    (libc::SYS_execve, exec::execve),
    (libc::SYS_execveat, exec::execveat),
    (libc::SYS_seccomp, crate::seccomp::seccomp),
    (libc::SYS_exit, tasks::exit),
    (libc::SYS_exit_group, tasks::exit_group),
    (libc::SYS_set_tid_address, tasks::set_tid_address),
    (libc::SYS_set_robust_list, tasks::set_robust_list),
    (libc::SYS_get_robust_list, tasks::get_robust_list),
    (libc::SYS_futex, futex::futex),
    (libc::SYS_arch_prctl, misc::arch_prctl),
    (libc::SYS_personality, misc::personality),
    (libc::SYS_getrlimit, limits::limits),
    (libc::SYS_setrlimit, limits::limits),
    (libc::SYS_prlimit64, limits::limits),
    (libc::SYS_prctl, misc::prctl),
    (libc::SYS_open, files::open),
    (libc::SYS_openat, files::open),
    (libc::SYS_openat2, files::open),
    (libc::SYS_creat, files::open),
    (libc::SYS_readlink, files::readlink),
    (libc::SYS_readlinkat, files::readlink),
    (libc::SYS_getdents, files::entries),
    (libc::SYS_getdents64, files::entries),
    (libc::SYS_close_range, fds::close_range),
    (libc::SYS_wait4, tasks::wait),
    (libc::SYS_waitid, tasks::wait),
    (libc::SYS_sched_yield, tasks::sched_yield),
    (libc::SYS_setuid, users::rights),
    (libc::SYS_setgid, users::rights),
    (libc::SYS_setreuid, users::rights),
    (libc::SYS_setregid, users::rights),
    (libc::SYS_setresuid, users::rights),
    (libc::SYS_setresgid, users::rights),
    (libc::SYS_setfsuid, users::rights),
    (libc::SYS_setfsgid, users::rights),
    (libc::SYS_setgroups, users::rights),
    (libc::SYS_capset, users::rights),
    (libc::SYS_chroot, users::paths),
    (libc::SYS_pivot_root, users::paths),
    (libc::SYS_mount, users::paths),
    (libc::SYS_umount2, users::paths),
    (libc::SYS_move_mount, users::paths),
];

static INDEX: [Option<Hook>; 512] = {
    let mut index: [Option<Hook>; 512] = [None; 512];
    let mut i = 0;
    while i < TABLE.len() {
        index[TABLE[i].0 as usize] = Some(TABLE[i].1);
        i += 1;
    }
    index
};

/// The hook of a call. A call that is refused has none, but is answered by the refusal.
pub fn find(call: &Call) -> Option<Hook> {
    if call.refused.is_some() {
        return None;
    }
    INDEX.get(call.nr as usize).copied().flatten()
}

/// Whether a call has a hook, by its number.
pub fn has(nr: u16) -> bool {
    INDEX.get(usize::from(nr)).is_some_and(Option::is_some)
}

#[cfg(test)]
mod tests {
    use relive_kabi::{Replay, TABLE as ROWS};

    #[test]
    fn every_call_that_needs_a_hook_has_one() {
        for row in ROWS {
            if matches!(row.replay, Replay::Hook | Replay::Redo) {
                assert!(
                    super::INDEX[usize::from(row.nr)].is_some(),
                    "{} has no hook",
                    row.name
                );
            }
        }
    }
}
