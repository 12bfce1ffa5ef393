//! Which calls have a hook: one table, by number.

use super::generic::as_described;
use super::operation::Handling::{self, ByRequest, Computes, Flows, Follows, Makes};
use super::operation::follow;
use super::seccomp::Seccomp;
use super::{
    actions_and_masks, advice, clone, exec, fds, files, futex, limits, locks, misc, mm, namespaces,
    own_memory, prctl, rights, segments, sending, tasks, timers,
};
use crate::call::Call;
use crate::ptrace::tracer;

const TABLE: &[(i64, Handling)] = &[
    (libc::SYS_mmap, Follows(follow::<mm::Map>)),
    (libc::SYS_mprotect, Computes(mm::mprotect)),
    (libc::SYS_pkey_mprotect, Computes(mm::pkey_mprotect)),
    (libc::SYS_munmap, Computes(mm::munmap)),
    (libc::SYS_brk, Follows(follow::<mm::Break>)),
    (libc::SYS_shmat, Follows(follow::<segments::Attach>)),
    (libc::SYS_semctl, Makes(segments::semctl)),
    (libc::SYS_shmdt, Computes(segments::shmdt)),
    (libc::SYS_mremap, Follows(follow::<mm::Remap>)),
    (libc::SYS_madvise, Computes(advice::madvise)),
    (
        libc::SYS_process_madvise,
        Makes(own_memory::process_madvise),
    ),
    (libc::SYS_mincore, Makes(mm::mincore)),
    (libc::SYS_msync, Makes(mm::msync)),
    (libc::SYS_mlock, Follows(follow::<locks::Range>)),
    (libc::SYS_mlock2, Follows(follow::<locks::Range>)),
    (libc::SYS_munlock, Follows(follow::<locks::Range>)),
    (libc::SYS_mlockall, Follows(follow::<locks::All>)),
    (libc::SYS_munlockall, Computes(locks::none)),
    (
        libc::SYS_rt_sigaction,
        Computes(actions_and_masks::rt_sigaction),
    ),
    (
        libc::SYS_rt_sigprocmask,
        Computes(actions_and_masks::rt_sigprocmask),
    ),
    (
        libc::SYS_rt_sigreturn,
        Flows(actions_and_masks::rt_sigreturn),
    ),
    (
        libc::SYS_sigaltstack,
        Computes(actions_and_masks::sigaltstack),
    ),
    (
        libc::SYS_rt_sigsuspend,
        Follows(follow::<actions_and_masks::Suspend>),
    ),
    (
        libc::SYS_rt_sigpending,
        Follows(follow::<actions_and_masks::Pending>),
    ),
    (
        libc::SYS_rt_sigtimedwait,
        Follows(follow::<actions_and_masks::Timedwait>),
    ),
    (libc::SYS_rt_sigqueueinfo, Follows(follow::<sending::Send>)),
    (
        libc::SYS_rt_tgsigqueueinfo,
        Follows(follow::<sending::Send>),
    ),
    (
        libc::SYS_pidfd_send_signal,
        Follows(follow::<sending::Send>),
    ),
    (libc::SYS_kill, Follows(follow::<sending::Send>)),
    (libc::SYS_tkill, Follows(follow::<sending::Send>)),
    (libc::SYS_tgkill, Follows(follow::<sending::Send>)),
    (libc::SYS_signalfd, Follows(as_described)),
    (libc::SYS_signalfd4, Follows(as_described)),
    (libc::SYS_clone, Flows(clone::clone)),
    (libc::SYS_clone3, Flows(clone::clone3)),
    (libc::SYS_unshare, Makes(namespaces::unshare)),
    (libc::SYS_setns, Makes(namespaces::setns)),
    (libc::SYS_futex_waitv, Follows(follow::<futex::Waitv>)),
    (libc::SYS_process_vm_readv, Makes(own_memory::read_vectors)),
    (
        libc::SYS_process_vm_writev,
        Makes(own_memory::write_vectors),
    ),
    (libc::SYS_read, Makes(own_memory::read)),
    (libc::SYS_pread64, Makes(own_memory::read)),
    (libc::SYS_readv, Makes(own_memory::read)),
    (libc::SYS_preadv, Makes(own_memory::read)),
    (libc::SYS_preadv2, Makes(own_memory::read)),
    (libc::SYS_write, Follows(follow::<own_memory::Write>)),
    (libc::SYS_pwrite64, Follows(follow::<own_memory::Write>)),
    (libc::SYS_writev, Follows(follow::<own_memory::Write>)),
    (libc::SYS_pwritev, Follows(follow::<own_memory::Write>)),
    (libc::SYS_pwritev2, Follows(follow::<own_memory::Write>)),
    (libc::SYS_fork, Flows(clone::fork)),
    (libc::SYS_vfork, Flows(clone::vfork)),
    (libc::SYS_execve, Follows(follow::<exec::Execve>)),
    (libc::SYS_execveat, Follows(follow::<exec::Execveat>)),
    (libc::SYS_seccomp, Follows(follow::<Seccomp>)),
    (libc::SYS_exit, Flows(tasks::exit)),
    (libc::SYS_exit_group, Flows(tasks::exit_group)),
    (libc::SYS_set_tid_address, Computes(tasks::set_tid_address)),
    (libc::SYS_set_robust_list, Computes(tasks::set_robust_list)),
    (libc::SYS_get_robust_list, Makes(tasks::get_robust_list)),
    (libc::SYS_futex, Follows(follow::<futex::Futex>)),
    (libc::SYS_arch_prctl, ByRequest(&misc::ARCH_PRCTL)),
    (libc::SYS_personality, Computes(misc::personality)),
    (libc::SYS_getrlimit, Follows(follow::<limits::Rlimit>)),
    (libc::SYS_setrlimit, Follows(follow::<limits::Rlimit>)),
    (libc::SYS_prlimit64, Follows(follow::<limits::Rlimit>)),
    (libc::SYS_prctl, ByRequest(&prctl::REQUESTS)),
    (libc::SYS_open, Makes(files::open)),
    (libc::SYS_openat, Makes(files::open)),
    (libc::SYS_openat2, Makes(files::open)),
    (libc::SYS_creat, Makes(files::open)),
    (libc::SYS_readlink, Makes(files::readlink)),
    (libc::SYS_readlinkat, Makes(files::readlink)),
    (libc::SYS_getdents, Makes(files::entries)),
    (libc::SYS_getdents64, Makes(files::entries)),
    (libc::SYS_close_range, Makes(fds::close_range)),
    (libc::SYS_wait4, Follows(follow::<tasks::Wait>)),
    (libc::SYS_waitid, Follows(follow::<tasks::Wait>)),
    (libc::SYS_ptrace, Makes(tracer::ptrace)),
    (libc::SYS_sched_yield, Follows(follow::<tasks::Yield>)),
    (libc::SYS_alarm, Follows(follow::<timers::Timer>)),
    (libc::SYS_setitimer, Follows(follow::<timers::Timer>)),
    (libc::SYS_timer_create, Follows(follow::<timers::Timer>)),
    (libc::SYS_setuid, Follows(follow::<rights::Rights>)),
    (libc::SYS_setgid, Follows(follow::<rights::Rights>)),
    (libc::SYS_setreuid, Follows(follow::<rights::Rights>)),
    (libc::SYS_setregid, Follows(follow::<rights::Rights>)),
    (libc::SYS_setresuid, Follows(follow::<rights::Rights>)),
    (libc::SYS_setresgid, Follows(follow::<rights::Rights>)),
    (libc::SYS_setfsuid, Follows(follow::<rights::Rights>)),
    (libc::SYS_setfsgid, Follows(follow::<rights::Rights>)),
    (libc::SYS_setgroups, Follows(follow::<rights::Rights>)),
    (libc::SYS_capset, Follows(follow::<rights::Rights>)),
    (libc::SYS_chroot, Follows(follow::<rights::PathChange>)),
    (libc::SYS_pivot_root, Follows(follow::<rights::PathChange>)),
    (libc::SYS_mount, Follows(follow::<rights::PathChange>)),
    (libc::SYS_umount2, Follows(follow::<rights::PathChange>)),
    (libc::SYS_move_mount, Follows(follow::<rights::PathChange>)),
];

static INDEX: [Option<Handling>; 512] = {
    let mut index: [Option<Handling>; 512] = [None; 512];
    let mut i = 0;
    while i < TABLE.len() {
        index[TABLE[i].0 as usize] = Some(TABLE[i].1);
        i += 1;
    }
    index
};

/// How the engine takes part in a call. It takes no part in a refused call: the refusal answers it.
pub fn find(call: &Call) -> Option<Handling> {
    if call.refused.is_some() {
        return None;
    }
    INDEX.get(call.nr as usize).copied().flatten()
}

/// Whether a call has a hook, by its number.
pub const fn has(nr: u16) -> bool {
    (nr as usize) < INDEX.len() && INDEX[nr as usize].is_some()
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
