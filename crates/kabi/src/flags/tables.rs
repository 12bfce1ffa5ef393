//! The tables: values and bits with their names, and nothing else.

/// The spelling of a value made of flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlagTable {
    /// The bits that together hold one of `choices`; 0 if there is no such field.
    pub field: u64,
    /// The values of that field.
    pub choices: &'static [(u64, &'static str)],
    /// Single bits, after names that stand for several of them.
    pub bits: &'static [(u64, &'static str)],
}

/// Flags of open(2).
pub const OPEN: FlagTable = FlagTable {
    field: 0o3,
    choices: &[(0, "O_RDONLY"), (1, "O_WRONLY"), (2, "O_RDWR")],
    bits: &[
        (0o20_200_000, "O_TMPFILE"),
        (0o4_010_000, "O_SYNC"),
        (0o100, "O_CREAT"),
        (0o200, "O_EXCL"),
        (0o400, "O_NOCTTY"),
        (0o1_000, "O_TRUNC"),
        (0o2_000, "O_APPEND"),
        (0o4_000, "O_NONBLOCK"),
        (0o10_000, "O_DSYNC"),
        (0o20_000, "O_ASYNC"),
        (0o40_000, "O_DIRECT"),
        (0o100_000, "O_LARGEFILE"),
        (0o200_000, "O_DIRECTORY"),
        (0o400_000, "O_NOFOLLOW"),
        (0o1_000_000, "O_NOATIME"),
        (0o2_000_000, "O_CLOEXEC"),
        (0o10_000_000, "O_PATH"),
    ],
};

/// Flags of calls that only make a descriptor: pipe2(2), accept4(2), eventfd(2), epoll_create1(2).
pub const OPEN_NEW: FlagTable = FlagTable {
    field: 0,
    choices: &[],
    bits: OPEN.bits,
};

/// Protection of mmap(2) and mprotect(2).
pub const PROT: FlagTable = FlagTable {
    field: 0xf,
    choices: &[(0, "PROT_NONE")],
    bits: &[
        (0x1, "PROT_READ"),
        (0x2, "PROT_WRITE"),
        (0x4, "PROT_EXEC"),
        (0x100_0000, "PROT_GROWSDOWN"),
        (0x200_0000, "PROT_GROWSUP"),
    ],
};

/// Flags of mmap(2).
pub const MAP: FlagTable = FlagTable {
    field: 0xf,
    choices: &[
        (1, "MAP_SHARED"),
        (2, "MAP_PRIVATE"),
        (3, "MAP_SHARED_VALIDATE"),
    ],
    bits: &[
        (0x10, "MAP_FIXED"),
        (0x20, "MAP_ANONYMOUS"),
        (0x40, "MAP_32BIT"),
        (0x100, "MAP_GROWSDOWN"),
        (0x800, "MAP_DENYWRITE"),
        (0x1000, "MAP_EXECUTABLE"),
        (0x2000, "MAP_LOCKED"),
        (0x4000, "MAP_NORESERVE"),
        (0x8000, "MAP_POPULATE"),
        (0x1_0000, "MAP_NONBLOCK"),
        (0x2_0000, "MAP_STACK"),
        (0x4_0000, "MAP_HUGETLB"),
        (0x8_0000, "MAP_SYNC"),
        (0x10_0000, "MAP_FIXED_NOREPLACE"),
    ],
};

/// Flags of mremap(2).
pub const MREMAP: FlagTable = FlagTable {
    field: 0,
    choices: &[],
    bits: &[
        (1, "MREMAP_MAYMOVE"),
        (2, "MREMAP_FIXED"),
        (4, "MREMAP_DONTUNMAP"),
    ],
};

/// Advice of madvise(2).
pub const MADVISE: FlagTable = FlagTable {
    field: 0xffff_ffff,
    choices: &[
        (0, "MADV_NORMAL"),
        (1, "MADV_RANDOM"),
        (2, "MADV_SEQUENTIAL"),
        (3, "MADV_WILLNEED"),
        (4, "MADV_DONTNEED"),
        (8, "MADV_FREE"),
        (9, "MADV_REMOVE"),
        (10, "MADV_DONTFORK"),
        (11, "MADV_DOFORK"),
        (12, "MADV_MERGEABLE"),
        (13, "MADV_UNMERGEABLE"),
        (14, "MADV_HUGEPAGE"),
        (15, "MADV_NOHUGEPAGE"),
        (16, "MADV_DONTDUMP"),
        (17, "MADV_DODUMP"),
        (18, "MADV_WIPEONFORK"),
        (19, "MADV_KEEPONFORK"),
        (20, "MADV_COLD"),
        (21, "MADV_PAGEOUT"),
        (22, "MADV_POPULATE_READ"),
        (23, "MADV_POPULATE_WRITE"),
        (24, "MADV_DONTNEED_LOCKED"),
        (25, "MADV_COLLAPSE"),
    ],
    bits: &[],
};

/// Flags of clone(2); the low byte is the signal sent at the child's end.
pub const CLONE: FlagTable = FlagTable {
    field: 0xff,
    choices: &[(17, "SIGCHLD")],
    bits: &[
        (0x100, "CLONE_VM"),
        (0x200, "CLONE_FS"),
        (0x400, "CLONE_FILES"),
        (0x800, "CLONE_SIGHAND"),
        (0x1000, "CLONE_PIDFD"),
        (0x2000, "CLONE_PTRACE"),
        (0x4000, "CLONE_VFORK"),
        (0x8000, "CLONE_PARENT"),
        (0x1_0000, "CLONE_THREAD"),
        (0x2_0000, "CLONE_NEWNS"),
        (0x4_0000, "CLONE_SYSVSEM"),
        (0x8_0000, "CLONE_SETTLS"),
        (0x10_0000, "CLONE_PARENT_SETTID"),
        (0x20_0000, "CLONE_CHILD_CLEARTID"),
        (0x40_0000, "CLONE_DETACHED"),
        (0x80_0000, "CLONE_UNTRACED"),
        (0x100_0000, "CLONE_CHILD_SETTID"),
        (0x200_0000, "CLONE_NEWCGROUP"),
        (0x400_0000, "CLONE_NEWUTS"),
        (0x800_0000, "CLONE_NEWIPC"),
        (0x1000_0000, "CLONE_NEWUSER"),
        (0x2000_0000, "CLONE_NEWPID"),
        (0x4000_0000, "CLONE_NEWNET"),
        (0x8000_0000, "CLONE_IO"),
    ],
};

/// Operations of futex(2).
pub const FUTEX: FlagTable = FlagTable {
    field: 0x7f,
    choices: &[
        (0, "FUTEX_WAIT"),
        (1, "FUTEX_WAKE"),
        (2, "FUTEX_FD"),
        (3, "FUTEX_REQUEUE"),
        (4, "FUTEX_CMP_REQUEUE"),
        (5, "FUTEX_WAKE_OP"),
        (6, "FUTEX_LOCK_PI"),
        (7, "FUTEX_UNLOCK_PI"),
        (8, "FUTEX_TRYLOCK_PI"),
        (9, "FUTEX_WAIT_BITSET"),
        (10, "FUTEX_WAKE_BITSET"),
        (11, "FUTEX_WAIT_REQUEUE_PI"),
        (12, "FUTEX_CMP_REQUEUE_PI"),
        (13, "FUTEX_LOCK_PI2"),
    ],
    bits: &[
        (0x80, "FUTEX_PRIVATE_FLAG"),
        (0x100, "FUTEX_CLOCK_REALTIME"),
    ],
};

/// Flags of the calls that take a folder and a path: openat(2) and its kin.
pub const AT: FlagTable = FlagTable {
    field: 0,
    choices: &[],
    bits: &[
        (0x100, "AT_SYMLINK_NOFOLLOW"),
        (0x200, "AT_EACCESS"),
        (0x400, "AT_SYMLINK_FOLLOW"),
        (0x800, "AT_NO_AUTOMOUNT"),
        (0x1000, "AT_EMPTY_PATH"),
        (0x2000, "AT_STATX_FORCE_SYNC"),
        (0x4000, "AT_STATX_DONT_SYNC"),
        (0x8000, "AT_RECURSIVE"),
    ],
};

/// Flags of unlinkat(2), where one bit has another name.
pub const AT_UNLINK: FlagTable = FlagTable {
    field: 0,
    choices: &[],
    bits: &[(0x200, "AT_REMOVEDIR")],
};

/// Flags of send(2) and recv(2).
pub const MSG: FlagTable = FlagTable {
    field: 0,
    choices: &[],
    bits: &[
        (0x1, "MSG_OOB"),
        (0x2, "MSG_PEEK"),
        (0x4, "MSG_DONTROUTE"),
        (0x8, "MSG_CTRUNC"),
        (0x20, "MSG_TRUNC"),
        (0x40, "MSG_DONTWAIT"),
        (0x80, "MSG_EOR"),
        (0x100, "MSG_WAITALL"),
        (0x800, "MSG_CONFIRM"),
        (0x2000, "MSG_ERRQUEUE"),
        (0x4000, "MSG_NOSIGNAL"),
        (0x8000, "MSG_MORE"),
        (0x1_0000, "MSG_WAITFORONE"),
        (0x400_0000, "MSG_ZEROCOPY"),
        (0x2000_0000, "MSG_FASTOPEN"),
        (0x4000_0000, "MSG_CMSG_CLOEXEC"),
    ],
};

/// Options of wait4(2) and waitid(2).
pub const WAIT: FlagTable = FlagTable {
    field: 0,
    choices: &[],
    bits: &[
        (0x1, "WNOHANG"),
        (0x2, "WSTOPPED"),
        (0x4, "WEXITED"),
        (0x8, "WCONTINUED"),
        (0x100_0000, "WNOWAIT"),
        (0x2000_0000, "__WNOTHREAD"),
        (0x4000_0000, "__WALL"),
        (0x8000_0000, "__WCLONE"),
    ],
};
