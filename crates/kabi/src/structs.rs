//! Sizes in bytes, and a few offsets, of the structures that x86-64 system calls exchange.
//!
//! The source of each is named: a manual page or a header of the kernel's user interface. They
//! are the *kernel's* layouts; the C library's `struct termios` and `struct stat` may differ.

macro_rules! sizes {
    ($($(#[$doc:meta])* $name:ident = $bytes:literal;)*) => {
        $($(#[$doc])* pub const $name: u32 = $bytes;)*
    };
}

sizes! {
    /// `int`, `pid_t`, `uid_t`, `timer_t`.
    INT = 4;
    /// `long`, `off_t`, `size_t`, `time_t`, a pointer.
    LONG = 8;

    /// `struct stat`: stat(2), `<asm/stat.h>`.
    STAT = 144;
    /// `struct statx`: statx(2), `<linux/stat.h>`.
    STATX = 256;
    /// `struct statfs`: statfs(2), `<asm/statfs.h>`.
    STATFS = 120;
    /// `struct ustat`: ustat(2).
    USTAT = 32;
    /// `struct open_how`: openat2(2), `<linux/openat2.h>`.
    OPEN_HOW = 24;
    /// The fixed head of `struct file_handle`: open_by_handle_at(2).
    FILE_HANDLE_HEADER = 8;
    /// `struct mount_attr`: mount_setattr(2), `<linux/mount.h>`.
    MOUNT_ATTR = 32;
    /// `struct if_dqblk`: quotactl(2), `<linux/quota.h>`.
    DQBLK = 72;
    /// `struct if_nextdqblk`: quotactl(2), `<linux/quota.h>`.
    NEXTDQBLK = 72;
    /// `struct if_dqinfo`: quotactl(2), `<linux/quota.h>`.
    DQINFO = 24;
    /// `struct fs_disk_quota`: `<linux/dqblk_xfs.h>`.
    FS_DISK_QUOTA = 112;
    /// `struct fs_quota_stat`: `<linux/dqblk_xfs.h>`.
    FS_QUOTA_STAT = 80;
    /// `struct fs_quota_statv`: `<linux/dqblk_xfs.h>`.
    FS_QUOTA_STATV = 160;
    /// The longest name of a file system, with its end: sysfs(2).
    FILE_SYSTEM_NAME = 32;
    /// `struct cachestat_range`: `<linux/mman.h>`.
    CACHESTAT_RANGE = 16;
    /// `struct cachestat`: `<linux/mman.h>`.
    CACHESTAT = 40;
    /// `struct utimbuf`: utime(2).
    UTIMBUF = 16;
    /// `struct flock`: fcntl(2), `<asm-generic/fcntl.h>`.
    FLOCK = 32;
    /// `struct f_owner_ex`: fcntl(2).
    F_OWNER_EX = 8;

    /// `struct timespec`: timespec(3type).
    TIMESPEC = 16;
    /// `struct timeval`: timeval(3type).
    TIMEVAL = 16;
    /// `struct timezone`: gettimeofday(2).
    TIMEZONE = 8;
    /// `struct itimerval`: getitimer(2).
    ITIMERVAL = 32;
    /// `struct itimerspec`: timer_settime(2).
    ITIMERSPEC = 32;
    /// `struct timex`: adjtimex(2), `<linux/timex.h>`.
    TIMEX = 208;
    /// `struct tms`: times(2).
    TMS = 32;

    /// `struct rusage`: getrusage(2).
    RUSAGE = 144;
    /// `struct rlimit` and `struct rlimit64`: getrlimit(2).
    RLIMIT = 16;
    /// `struct sysinfo`: sysinfo(2).
    SYSINFO = 112;
    /// `struct new_utsname`: uname(2), six fields of 65 bytes.
    UTSNAME = 390;
    /// `struct sched_param`: sched_setparam(2).
    SCHED_PARAM = 4;
    /// `struct sched_attr`: sched_setattr(2), `<linux/sched/types.h>`.
    SCHED_ATTR = 56;
    /// `struct __user_cap_header_struct`: capget(2).
    CAP_HEADER = 8;
    /// One `struct __user_cap_data_struct`: capget(2).
    CAP_DATA = 12;
    /// A thread name with its NUL: `TASK_COMM_LEN`, prctl(2).
    COMM = 16;

    /// `siginfo_t`: sigaction(2), `<asm-generic/siginfo.h>`.
    SIGINFO = 128;
    /// The part of `siginfo_t` that waitid(2) writes, up to and with `si_status`.
    WAITID_SIGINFO = 28;
    /// The kernel's `struct sigaction`: handler, flags, restorer, mask.
    SIGACTION = 32;
    /// The kernel's `sigset_t`.
    SIGSET = 8;
    /// `stack_t`: sigaltstack(2).
    STACK = 24;
    /// `struct sigevent`: sigevent(3type).
    SIGEVENT = 64;

    /// `struct pollfd`: poll(2).
    POLLFD = 8;
    /// `struct epoll_event`, packed on x86-64: epoll_ctl(2).
    EPOLL_EVENT = 12;
    /// `struct iovec`: readv(2).
    IOVEC = 16;
    /// `struct msghdr`: recvmsg(2), `struct user_msghdr` of the kernel.
    MSGHDR = 56;
    /// Offset of `msg_name` in `struct msghdr`.
    MSGHDR_NAME = 0;
    /// Offset of `msg_namelen` (4 bytes) in `struct msghdr`.
    MSGHDR_NAMELEN = 8;
    /// Offset of `msg_iov` in `struct msghdr`.
    MSGHDR_IOV = 16;
    /// Offset of `msg_iovlen` (8 bytes) in `struct msghdr`.
    MSGHDR_IOVLEN = 24;
    /// Offset of `msg_control` in `struct msghdr`.
    MSGHDR_CONTROL = 32;
    /// Offset of `msg_controllen` (8 bytes) in `struct msghdr`.
    MSGHDR_CONTROLLEN = 40;
    /// Offset of `msg_flags` (4 bytes) in `struct msghdr`.
    MSGHDR_FLAGS = 48;
    /// `struct mmsghdr`: recvmmsg(2).
    MMSGHDR = 64;
    /// Offset of `msg_len` (4 bytes) in `struct mmsghdr`.
    MMSGHDR_LEN = 56;

    /// `struct mq_attr`: mq_getattr(3), `<linux/mqueue.h>`.
    MQ_ATTR = 64;
    /// `struct sembuf`: semop(2).
    SEMBUF = 6;
    /// `struct semid64_ds`: semctl(2), `<asm/sembuf.h>`.
    SEMID_DS = 104;
    /// `struct seminfo`: semctl(2).
    SEMINFO = 40;
    /// The type word in front of a System V message: msgop(2).
    MSG_TYPE = 8;
    /// `struct shmid64_ds`: shmctl(2), `<asm/shmbuf.h>`.
    SHMID_DS = 112;
    /// Offset of `shm_segsz` (8 bytes) in `struct shmid64_ds`.
    SHMID_SIZE = 48;
    /// `struct shminfo64`: shmctl(2).
    SHMINFO = 72;
    /// `struct shm_info`: shmctl(2).
    SHM_INFO = 48;
    /// `struct msqid64_ds`: msgctl(2), `<asm/msgbuf.h>`.
    MSQID_DS = 120;
    /// `struct msginfo`: msgctl(2).
    MSGINFO = 32;

    /// The kernel's `struct termios`: ioctl_tty(2), `<asm/termbits.h>`.
    TERMIOS = 36;
    /// `struct termios2`: ioctl_tty(2), `<asm/termbits.h>`.
    TERMIOS2 = 44;
    /// `struct termio`: `<asm/termios.h>`.
    TERMIO = 18;
    /// `struct winsize`: ioctl_tty(2).
    WINSIZE = 8;
    /// `struct serial_struct`: `<linux/serial.h>`.
    SERIAL_STRUCT = 72;
    /// `struct serial_icounter_struct`: `<linux/serial.h>`.
    SERIAL_ICOUNTER = 80;
    /// `struct ifreq`: netdevice(7).
    IFREQ = 40;
    /// `struct arpreq`: arp(7).
    ARPREQ = 68;
    /// `struct rtentry`: `<linux/route.h>`.
    RTENTRY = 120;
    /// `struct file_clone_range`: ioctl_ficlonerange(2).
    FILE_CLONE_RANGE = 32;
    /// `struct fsxattr`: `<linux/fs.h>`.
    FSXATTR = 28;
    /// `struct fstrim_range`: `<linux/fs.h>`.
    FSTRIM_RANGE = 24;
    /// A file system label: `FSLABEL_MAX`, `<linux/fs.h>`.
    FSLABEL = 256;
    /// `struct hd_geometry`: `<linux/hdreg.h>`.
    HD_GEOMETRY = 16;
}
