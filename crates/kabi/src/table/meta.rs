//! A file system's data about a file: status, owner, times, extended attributes, entries.

use crate::dsl::*;

/// Two times, the last access and the last modification.
const TIMEVALS: u32 = 2 * structs::TIMEVAL;
const TIMESPECS: u32 = 2 * structs::TIMESPEC;

rows! {
    4 stat(Str, output_of(structs::STAT));
    5 fstat(Fd, output_of(structs::STAT));
    6 lstat(Str, output_of(structs::STAT));
    78 getdents(Fd, output(arg(2), Ret), Uint);
    90 chmod(Str, Mode);
    91 fchmod(Fd, Mode);
    92 chown(Str, Int, Int);
    93 fchown(Fd, Int, Int);
    94 lchown(Str, Int, Int);
    95 umask(Mode);
    132 utime(Str, input_of(structs::UTIMBUF));
    136 ustat(Hex, output_of(structs::USTAT));
    137 statfs(Str, output_of(structs::STATFS));
    138 fstatfs(Fd, output_of(structs::STATFS));
    188 setxattr(Str, Str, input(arg(3)), Size, Flags);
    189 lsetxattr(Str, Str, input(arg(3)), Size, Flags);
    190 fsetxattr(Fd, Str, input(arg(3)), Size, Flags);
    191 getxattr(Str, Str, output(arg(3), Ret), Size);
    192 lgetxattr(Str, Str, output(arg(3), Ret), Size);
    193 fgetxattr(Fd, Str, output(arg(3), Ret), Size);
    194 listxattr(Str, output(arg(2), Ret), Size);
    195 llistxattr(Str, output(arg(2), Ret), Size);
    196 flistxattr(Fd, output(arg(2), Ret), Size);
    197 removexattr(Str, Str);
    198 lremovexattr(Str, Str);
    199 fremovexattr(Fd, Str);
    217 getdents64(Fd, output(arg(2), Ret), Uint);
    235 utimes(Str, input_of(TIMEVALS));
    260 fchownat(DirFd, Str, Int, Int, Flags);
    261 futimesat(DirFd, Str, input_of(TIMEVALS));
    262 newfstatat(DirFd, Str, output_of(structs::STAT), Flags);
    268 fchmodat(DirFd, Str, Mode);
    280 utimensat(DirFd, Str, input_of(TIMESPECS), Flags);
    332 statx(DirFd, Str, Flags, Flags, output_of(structs::STATX));
    452 fchmodat2(DirFd, Str, Mode, Flags);
    463 setxattrat(DirFd, Str, Flags, Str, input(arg(5)), Size) => enosys("newer than Linux 6.12");
    464 getxattrat(DirFd, Str, Flags, Str, Addr, Size) => enosys("newer than Linux 6.12");
    465 listxattrat(DirFd, Str, Flags, Addr, Size) => enosys("newer than Linux 6.12");
    466 removexattrat(DirFd, Str, Flags, Str) => enosys("newer than Linux 6.12");
    468 file_getattr(DirFd, Str, Addr, Size, Flags) => enosys("newer than Linux 6.12");
    469 file_setattr(DirFd, Str, input(arg(3)), Size, Flags) => enosys("newer than Linux 6.12");
}
