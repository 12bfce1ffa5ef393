//! Which calls have a hook: one table, by number.

use super::operation::Part::{self, Follows};
use super::operation::follow;
use super::{
    Call, advice, clone, exec, fds, files, futex, kill, limits, locks, memory, misc, namespaces,
    own_memory, segments, tasks, users,
};
use crate::signals::calls;

const TABLE: &[(i64, Part)] = &[
    (libc::SYS_mmap, Follows(memory::mmap)),
    (libc::SYS_mprotect, Follows(memory::mprotect)),
    (libc::SYS_munmap, Follows(memory::munmap)),
    (libc::SYS_brk, Follows(memory::brk)),
    (libc::SYS_shmat, Follows(segments::shmat)),
    (libc::SYS_semctl, Follows(segments::semctl)),
    (libc::SYS_shmdt, Follows(segments::shmdt)),
    (libc::SYS_mremap, Follows(memory::mremap)),
    (libc::SYS_madvise, Follows(advice::madvise)),
    (libc::SYS_mincore, Follows(memory::mincore)),
    (libc::SYS_msync, Follows(memory::msync)),
    (libc::SYS_mlock, Follows(locks::range)),
    (libc::SYS_mlock2, Follows(locks::range)),
    (libc::SYS_munlock, Follows(locks::range)),
    (libc::SYS_mlockall, Follows(locks::all)),
    (libc::SYS_munlockall, Follows(locks::none)),
    (libc::SYS_rt_sigaction, Follows(calls::rt_sigaction)),
    (libc::SYS_rt_sigprocmask, Follows(calls::rt_sigprocmask)),
    (libc::SYS_rt_sigreturn, Follows(calls::rt_sigreturn)),
    (libc::SYS_sigaltstack, Follows(calls::sigaltstack)),
    (libc::SYS_rt_sigsuspend, Follows(calls::rt_sigsuspend)),
    (libc::SYS_rt_sigpending, Follows(calls::rt_sigpending)),
    (libc::SYS_rt_sigtimedwait, Follows(calls::rt_sigtimedwait)),
    (libc::SYS_rt_sigqueueinfo, Follows(kill::send)),
    (libc::SYS_rt_tgsigqueueinfo, Follows(kill::send)),
    (libc::SYS_pidfd_send_signal, Follows(kill::send)),
    (libc::SYS_kill, Follows(kill::send)),
    (libc::SYS_tkill, Follows(kill::send)),
    (libc::SYS_tgkill, Follows(kill::send)),
    (libc::SYS_signalfd, Follows(calls::plain)),
    (libc::SYS_signalfd4, Follows(calls::plain)),
    (libc::SYS_clone, Follows(clone::clone)),
    (libc::SYS_clone3, Follows(clone::clone3)),
    (libc::SYS_unshare, Follows(namespaces::unshare)),
    (libc::SYS_futex_waitv, Follows(futex::waitv)),
    (
        libc::SYS_process_vm_readv,
        Follows(own_memory::read_vectors),
    ),
    (
        libc::SYS_process_vm_writev,
        Follows(own_memory::write_vectors),
    ),
    (libc::SYS_read, Follows(own_memory::read)),
    (libc::SYS_pread64, Follows(own_memory::read)),
    (libc::SYS_readv, Follows(own_memory::read)),
    (libc::SYS_preadv, Follows(own_memory::read)),
    (libc::SYS_preadv2, Follows(own_memory::read)),
    (libc::SYS_write, Follows(own_memory::write)),
    (libc::SYS_pwrite64, Follows(own_memory::write)),
    (libc::SYS_writev, Follows(own_memory::write)),
    (libc::SYS_pwritev, Follows(own_memory::write)),
    (libc::SYS_pwritev2, Follows(own_memory::write)),
    (libc::SYS_fork, Follows(tasks::fork)),
    (libc::SYS_vfork, Follows(clone::vfork)),
    (libc::SYS_execve, Follows(exec::execve)),
    (libc::SYS_execveat, Follows(exec::execveat)),
    (libc::SYS_seccomp, Follows(crate::seccomp::seccomp)),
    (libc::SYS_exit, Follows(tasks::exit)),
    (libc::SYS_exit_group, Follows(tasks::exit_group)),
    (libc::SYS_set_tid_address, Follows(tasks::set_tid_address)),
    (libc::SYS_set_robust_list, Follows(tasks::set_robust_list)),
    (libc::SYS_get_robust_list, Follows(tasks::get_robust_list)),
    (libc::SYS_futex, Follows(futex::futex)),
    (libc::SYS_arch_prctl, Follows(misc::arch_prctl)),
    (libc::SYS_personality, Follows(misc::personality)),
    (libc::SYS_getrlimit, Follows(limits::limits)),
    (libc::SYS_setrlimit, Follows(limits::limits)),
    (libc::SYS_prlimit64, Follows(limits::limits)),
    (libc::SYS_prctl, Follows(misc::prctl)),
    (libc::SYS_open, Follows(files::open)),
    (libc::SYS_openat, Follows(files::open)),
    (libc::SYS_openat2, Follows(files::open)),
    (libc::SYS_creat, Follows(files::open)),
    (libc::SYS_readlink, Follows(files::readlink)),
    (libc::SYS_readlinkat, Follows(files::readlink)),
    (libc::SYS_getdents, Follows(files::entries)),
    (libc::SYS_getdents64, Follows(files::entries)),
    (libc::SYS_close_range, Follows(fds::close_range)),
    (libc::SYS_wait4, Follows(tasks::wait)),
    (libc::SYS_waitid, Follows(tasks::wait)),
    (libc::SYS_sched_yield, Follows(tasks::sched_yield)),
    (libc::SYS_setuid, Follows(follow::<users::Rights>)),
    (libc::SYS_setgid, Follows(follow::<users::Rights>)),
    (libc::SYS_setreuid, Follows(follow::<users::Rights>)),
    (libc::SYS_setregid, Follows(follow::<users::Rights>)),
    (libc::SYS_setresuid, Follows(follow::<users::Rights>)),
    (libc::SYS_setresgid, Follows(follow::<users::Rights>)),
    (libc::SYS_setfsuid, Follows(follow::<users::Rights>)),
    (libc::SYS_setfsgid, Follows(follow::<users::Rights>)),
    (libc::SYS_setgroups, Follows(follow::<users::Rights>)),
    (libc::SYS_capset, Follows(follow::<users::Rights>)),
    (libc::SYS_chroot, Follows(follow::<users::Paths>)),
    (libc::SYS_pivot_root, Follows(follow::<users::Paths>)),
    (libc::SYS_mount, Follows(follow::<users::Paths>)),
    (libc::SYS_umount2, Follows(follow::<users::Paths>)),
    (libc::SYS_move_mount, Follows(follow::<users::Paths>)),
];

static INDEX: [Option<Part>; 512] = {
    let mut index: [Option<Part>; 512] = [None; 512];
    let mut i = 0;
    while i < TABLE.len() {
        index[TABLE[i].0 as usize] = Some(TABLE[i].1);
        i += 1;
    }
    index
};

/// How the engine takes part in a call. In one that is refused it does not: that is answered by the refusal.
pub fn find(call: &Call) -> Option<Part> {
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
