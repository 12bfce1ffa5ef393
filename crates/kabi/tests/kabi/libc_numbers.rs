//! Numbers of calls, requests and options, and sizes of structures, against the C library.

use std::mem::{offset_of, size_of};

use relive_kabi::{SubTable, TABLE, sockopt, structs};

macro_rules! numbers {
    ($($constant:ident)*) => { [$((stringify!($constant), i128::from(libc::$constant))),*] };
}

#[test]
fn numbers_agree_with_the_c_library() {
    let numbers = numbers! {
        SYS_read SYS_write SYS_open SYS_close SYS_stat SYS_fstat SYS_lstat SYS_poll
        SYS_lseek SYS_mmap SYS_mprotect SYS_munmap SYS_brk SYS_rt_sigaction
        SYS_rt_sigprocmask SYS_rt_sigreturn SYS_ioctl SYS_pread64 SYS_pwrite64 SYS_readv
        SYS_writev SYS_access SYS_pipe SYS_select SYS_sched_yield SYS_mremap SYS_msync
        SYS_mincore SYS_madvise SYS_shmget SYS_shmat SYS_shmctl SYS_dup SYS_dup2 SYS_pause
        SYS_nanosleep SYS_getitimer SYS_alarm SYS_setitimer SYS_getpid SYS_sendfile
        SYS_socket SYS_connect SYS_accept SYS_sendto SYS_recvfrom SYS_sendmsg SYS_recvmsg
        SYS_shutdown SYS_bind SYS_listen SYS_getsockname SYS_getpeername SYS_socketpair
        SYS_setsockopt SYS_getsockopt SYS_clone SYS_fork SYS_vfork SYS_execve SYS_exit
        SYS_wait4 SYS_kill SYS_uname SYS_semget SYS_semop SYS_semctl SYS_shmdt SYS_msgget
        SYS_msgsnd SYS_msgrcv SYS_msgctl SYS_fcntl SYS_flock SYS_fsync SYS_fdatasync
        SYS_truncate SYS_ftruncate SYS_getdents SYS_getcwd SYS_chdir SYS_fchdir SYS_rename
        SYS_mkdir SYS_rmdir SYS_creat SYS_link SYS_unlink SYS_symlink SYS_readlink SYS_chmod
        SYS_fchmod SYS_chown SYS_fchown SYS_lchown SYS_umask SYS_gettimeofday SYS_getrlimit
        SYS_getrusage SYS_sysinfo SYS_times SYS_ptrace SYS_getuid SYS_syslog SYS_getgid
        SYS_setuid SYS_setgid SYS_geteuid SYS_getegid SYS_setpgid SYS_getppid SYS_getpgrp
        SYS_setsid SYS_setreuid SYS_setregid SYS_getgroups SYS_setgroups SYS_setresuid
        SYS_getresuid SYS_setresgid SYS_getresgid SYS_getpgid SYS_setfsuid SYS_setfsgid
        SYS_getsid SYS_capget SYS_capset SYS_rt_sigpending SYS_rt_sigtimedwait
        SYS_rt_sigqueueinfo SYS_rt_sigsuspend SYS_sigaltstack SYS_utime SYS_mknod SYS_uselib
        SYS_personality SYS_ustat SYS_statfs SYS_fstatfs SYS_sysfs SYS_getpriority
        SYS_setpriority SYS_sched_setparam SYS_sched_getparam SYS_sched_setscheduler
        SYS_sched_getscheduler SYS_sched_get_priority_max SYS_sched_get_priority_min
        SYS_sched_rr_get_interval SYS_mlock SYS_munlock SYS_mlockall SYS_munlockall
        SYS_vhangup SYS_modify_ldt SYS_pivot_root SYS__sysctl SYS_prctl SYS_arch_prctl
        SYS_adjtimex SYS_setrlimit SYS_chroot SYS_sync SYS_acct SYS_settimeofday SYS_mount
        SYS_umount2 SYS_swapon SYS_swapoff SYS_reboot SYS_sethostname SYS_setdomainname
        SYS_iopl SYS_ioperm SYS_init_module SYS_delete_module SYS_quotactl SYS_nfsservctl
        SYS_getpmsg SYS_putpmsg SYS_afs_syscall SYS_tuxcall SYS_security SYS_gettid
        SYS_readahead SYS_setxattr SYS_lsetxattr SYS_fsetxattr SYS_getxattr SYS_lgetxattr
        SYS_fgetxattr SYS_listxattr SYS_llistxattr SYS_flistxattr SYS_removexattr
        SYS_lremovexattr SYS_fremovexattr SYS_tkill SYS_time SYS_futex SYS_sched_setaffinity
        SYS_sched_getaffinity SYS_set_thread_area SYS_io_setup SYS_io_destroy
        SYS_io_getevents SYS_io_submit SYS_io_cancel SYS_get_thread_area SYS_lookup_dcookie
        SYS_epoll_create SYS_epoll_ctl_old SYS_epoll_wait_old SYS_remap_file_pages
        SYS_getdents64 SYS_set_tid_address SYS_restart_syscall SYS_semtimedop SYS_fadvise64
        SYS_timer_create SYS_timer_settime SYS_timer_gettime SYS_timer_getoverrun
        SYS_timer_delete SYS_clock_settime SYS_clock_gettime SYS_clock_getres
        SYS_clock_nanosleep SYS_exit_group SYS_epoll_wait SYS_epoll_ctl SYS_tgkill
        SYS_utimes SYS_vserver SYS_mbind SYS_set_mempolicy SYS_get_mempolicy SYS_mq_open
        SYS_mq_unlink SYS_mq_timedsend SYS_mq_timedreceive SYS_mq_notify SYS_mq_getsetattr
        SYS_kexec_load SYS_waitid SYS_add_key SYS_request_key SYS_keyctl SYS_ioprio_set
        SYS_ioprio_get SYS_inotify_init SYS_inotify_add_watch SYS_inotify_rm_watch
        SYS_migrate_pages SYS_openat SYS_mkdirat SYS_mknodat SYS_fchownat SYS_futimesat
        SYS_newfstatat SYS_unlinkat SYS_renameat SYS_linkat SYS_symlinkat SYS_readlinkat
        SYS_fchmodat SYS_faccessat SYS_pselect6 SYS_ppoll SYS_unshare SYS_set_robust_list
        SYS_get_robust_list SYS_splice SYS_tee SYS_sync_file_range SYS_vmsplice
        SYS_move_pages SYS_utimensat SYS_epoll_pwait SYS_signalfd SYS_timerfd_create
        SYS_eventfd SYS_fallocate SYS_timerfd_settime SYS_timerfd_gettime SYS_accept4
        SYS_signalfd4 SYS_eventfd2 SYS_epoll_create1 SYS_dup3 SYS_pipe2 SYS_inotify_init1
        SYS_preadv SYS_pwritev SYS_rt_tgsigqueueinfo SYS_perf_event_open SYS_recvmmsg
        SYS_fanotify_init SYS_fanotify_mark SYS_prlimit64 SYS_name_to_handle_at
        SYS_open_by_handle_at SYS_clock_adjtime SYS_syncfs SYS_sendmmsg SYS_setns SYS_getcpu
        SYS_process_vm_readv SYS_process_vm_writev SYS_kcmp SYS_finit_module
        SYS_sched_setattr SYS_sched_getattr SYS_renameat2 SYS_seccomp SYS_getrandom
        SYS_memfd_create SYS_kexec_file_load SYS_bpf SYS_execveat SYS_userfaultfd
        SYS_membarrier SYS_mlock2 SYS_copy_file_range SYS_preadv2 SYS_pwritev2
        SYS_pkey_mprotect SYS_pkey_alloc SYS_pkey_free SYS_statx SYS_rseq
        SYS_pidfd_send_signal SYS_io_uring_setup SYS_io_uring_enter SYS_io_uring_register
        SYS_open_tree SYS_move_mount SYS_fsopen SYS_fsconfig SYS_fsmount SYS_fspick
        SYS_pidfd_open SYS_clone3 SYS_close_range SYS_openat2 SYS_pidfd_getfd SYS_faccessat2
        SYS_process_madvise SYS_epoll_pwait2 SYS_mount_setattr SYS_quotactl_fd
        SYS_landlock_create_ruleset SYS_landlock_add_rule SYS_landlock_restrict_self
        SYS_memfd_secret SYS_process_mrelease SYS_futex_waitv SYS_set_mempolicy_home_node
        SYS_fchmodat2 SYS_mseal
    };
    for (constant, number) in numbers {
        let name = constant
            .strip_prefix("SYS_")
            .expect("a constant of the C library");
        let row = TABLE.iter().find(|row| row.name == name).expect(name);
        assert_eq!(i128::from(row.nr), number, "{name}");
    }
}

#[test]
fn requests_agree_with_the_c_library() {
    for (table, constants) in [
        (
            SubTable::Ioctl,
            &numbers! { TCGETS TCSETSW TIOCGWINSZ TIOCSWINSZ TIOCGPGRP TIOCSPGRP
            TIOCSCTTY TIOCNOTTY TIOCGPTN TIOCSPTLCK TIOCGSID TIOCOUTQ TIOCSTI TIOCGPTPEER FIONREAD
            FIONBIO FIOCLEX FIONCLEX FIOASYNC FIOQSIZE FICLONE FICLONERANGE FS_IOC_GETFLAGS
            FS_IOC_SETFLAGS TCGETS2 TCSETS2 TCSBRK TCFLSH TIOCMGET SIOCGIFINDEX SIOCGIFMTU }[..],
        ),
        (
            SubTable::Fcntl,
            &numbers! { F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL F_GETLK F_SETLK
            F_SETLKW F_SETOWN F_GETOWN F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW F_SETLEASE F_GETLEASE
            F_NOTIFY F_DUPFD_CLOEXEC F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS F_GET_SEALS }[..],
        ),
        (
            SubTable::Prctl,
            &numbers! { PR_SET_NAME PR_GET_NAME PR_SET_PDEATHSIG PR_GET_PDEATHSIG
            PR_SET_DUMPABLE PR_SET_MM PR_SET_SECCOMP PR_SET_NO_NEW_PRIVS PR_SET_CHILD_SUBREAPER
            PR_GET_TID_ADDRESS PR_SET_THP_DISABLE PR_CAP_AMBIENT PR_SET_VMA PR_SET_PTRACER
            PR_SET_TIMERSLACK PR_CAPBSET_DROP PR_MCE_KILL PR_SET_MDWE PR_GET_SECUREBITS }[..],
        ),
    ] {
        for &(name, number) in constants {
            let key = u64::try_from(number).expect("a request is not negative");
            let sub = table
                .find(key)
                .unwrap_or_else(|| panic!("{name} has no row"));
            assert_eq!(sub.name, name);
        }
    }
    let levels = [
        (
            libc::SOL_SOCKET,
            &numbers! { SO_REUSEADDR SO_ERROR SO_LINGER SO_RCVTIMEO SO_PEERCRED
            SO_ATTACH_FILTER SO_TIMESTAMPING SO_COOKIE SO_ZEROCOPY SO_INCOMING_CPU }[..],
        ),
        (
            libc::IPPROTO_TCP,
            &numbers! { TCP_NODELAY TCP_INFO TCP_CONGESTION TCP_USER_TIMEOUT
            TCP_FASTOPEN TCP_ULP }[..],
        ),
        (
            libc::IPPROTO_IP,
            &numbers! { IP_TOS IP_TTL IP_ADD_MEMBERSHIP IP_MULTICAST_ALL }[..],
        ),
        (
            libc::IPPROTO_IPV6,
            &numbers! { IPV6_V6ONLY IPV6_TCLASS IPV6_RECVPKTINFO IPV6_MTU }[..],
        ),
        (
            libc::IPPROTO_UDP,
            &numbers! { UDP_CORK UDP_SEGMENT UDP_GRO }[..],
        ),
        (
            libc::SOL_PACKET,
            &numbers! { PACKET_RX_RING PACKET_FANOUT }[..],
        ),
        (
            libc::SOL_NETLINK,
            &numbers! { NETLINK_ADD_MEMBERSHIP NETLINK_EXT_ACK }[..],
        ),
    ];
    for (level, options) in levels {
        for &(name, option) in options {
            let sub = sockopt(level as u32, option as u32).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(sub.name, name);
        }
    }
}

#[test]
fn sizes_agree_with_the_c_library() {
    let sizes = [
        (structs::STAT, size_of::<libc::stat>()),
        (structs::STATX, size_of::<libc::statx>()),
        (structs::STATFS, size_of::<libc::statfs>()),
        (structs::OPEN_HOW, size_of::<libc::open_how>()),
        (structs::MOUNT_ATTR, size_of::<libc::mount_attr>()),
        (structs::UTIMBUF, size_of::<libc::utimbuf>()),
        (structs::FLOCK, size_of::<libc::flock>()),
        (structs::TIMESPEC, size_of::<libc::timespec>()),
        (structs::TIMEVAL, size_of::<libc::timeval>()),
        (structs::ITIMERVAL, size_of::<libc::itimerval>()),
        (structs::ITIMERSPEC, size_of::<libc::itimerspec>()),
        (structs::TIMEX, size_of::<libc::timex>()),
        (structs::TMS, size_of::<libc::tms>()),
        (structs::RUSAGE, size_of::<libc::rusage>()),
        (structs::RLIMIT, size_of::<libc::rlimit>()),
        (structs::SYSINFO, size_of::<libc::sysinfo>()),
        (structs::UTSNAME, size_of::<libc::utsname>()),
        (structs::SCHED_PARAM, size_of::<libc::sched_param>()),
        (structs::SIGINFO, size_of::<libc::siginfo_t>()),
        (structs::STACK, size_of::<libc::stack_t>()),
        (structs::SIGEVENT, size_of::<libc::sigevent>()),
        (structs::POLLFD, size_of::<libc::pollfd>()),
        (structs::EPOLL_EVENT, size_of::<libc::epoll_event>()),
        (structs::IOVEC, size_of::<libc::iovec>()),
        (structs::MSGHDR, size_of::<libc::msghdr>()),
        (structs::MSGHDR_NAME, offset_of!(libc::msghdr, msg_name)),
        (
            structs::MSGHDR_NAMELEN,
            offset_of!(libc::msghdr, msg_namelen),
        ),
        (structs::MSGHDR_IOV, offset_of!(libc::msghdr, msg_iov)),
        (structs::MSGHDR_IOVLEN, offset_of!(libc::msghdr, msg_iovlen)),
        (
            structs::MSGHDR_CONTROL,
            offset_of!(libc::msghdr, msg_control),
        ),
        (
            structs::MSGHDR_CONTROLLEN,
            offset_of!(libc::msghdr, msg_controllen),
        ),
        (structs::MSGHDR_FLAGS, offset_of!(libc::msghdr, msg_flags)),
        (structs::MMSGHDR, size_of::<libc::mmsghdr>()),
        (structs::MMSGHDR_LEN, offset_of!(libc::mmsghdr, msg_len)),
        (structs::MQ_ATTR, size_of::<libc::mq_attr>()),
        (structs::SEMBUF, size_of::<libc::sembuf>()),
        (structs::SEMID_DS, size_of::<libc::semid_ds>()),
        (structs::MSQID_DS, size_of::<libc::msqid_ds>()),
        (structs::MSGINFO, size_of::<libc::msginfo>()),
        (structs::TERMIOS2, size_of::<libc::termios2>()),
        (structs::WINSIZE, size_of::<libc::winsize>()),
        (structs::IFREQ, size_of::<libc::ifreq>()),
        (structs::ARPREQ, size_of::<libc::arpreq>()),
        (structs::RTENTRY, size_of::<libc::rtentry>()),
        (
            structs::FILE_CLONE_RANGE,
            size_of::<libc::file_clone_range>(),
        ),
    ];
    for (at, (ours, theirs)) in sizes.into_iter().enumerate() {
        assert_eq!(ours as usize, theirs, "entry {at} of the list");
    }
}
