//! The system as a whole: names, mounts, modules, and the numbers of calls long gone.

use crate::dsl::*;
use crate::sub_table::SubTable;

rows! {
    63 uname(output_of(structs::UTSNAME));
    99 sysinfo(output_of(structs::SYSINFO));
    103 syslog(Int, Addr, Int) => errno(EPERM, "the kernel's log is not the guest's business");
    134 uselib(Str) => enosys("not in Linux any more");
    139 sysfs(Int, Hex, Select) => sub(SubTable::Sysfs);
    153 vhangup();
    154 modify_ldt(Int, Addr, Size) => enosys("segments are the translator's");
    155 pivot_root(Str, Str);
    156 _sysctl() => enosys("not in Linux any more");
    163 acct(Str) => errno(EPERM, "acts on the whole machine");
    165 mount(Str, Str, Str, Flags, Addr);
    166 umount2(Str, Flags);
    167 swapon(Str, Flags) => errno(EPERM, "acts on the whole machine");
    168 swapoff(Str) => errno(EPERM, "acts on the whole machine");
    169 reboot(Hex, Hex, Hex, Addr) => errno(EPERM, "acts on the whole machine");
    170 sethostname(input(arg(1)), Int);
    171 setdomainname(input(arg(1)), Int);
    172 iopl(Uint) => errno(EPERM, "ports would be read behind the tape");
    173 ioperm(Hex, Hex, Int) => errno(EPERM, "ports would be read behind the tape");
    174 create_module() => enosys("not in Linux any more");
    175 init_module(input(arg(1)), Size, Str) => errno(EPERM, "acts on the whole machine");
    176 delete_module(Str, Flags) => errno(EPERM, "acts on the whole machine");
    177 get_kernel_syms() => enosys("not in Linux any more");
    178 query_module() => enosys("not in Linux any more");
    179 quotactl(Hex, Str, Int, Select) => sub(SubTable::Quotactl);
    180 nfsservctl() => enosys("not in Linux any more");
    181 getpmsg() => enosys("never in Linux");
    182 putpmsg() => enosys("never in Linux");
    183 afs_syscall() => enosys("never in Linux");
    184 tuxcall() => enosys("never in Linux");
    185 security() => enosys("never in Linux");
    212 lookup_dcookie() => enosys("not in Linux any more");
    236 vserver() => enosys("never in Linux");
    246 kexec_load(Addr, Size, Addr, Flags) => errno(EPERM, "acts on the whole machine");
    313 finit_module(Fd, Str, Flags) => errno(EPERM, "acts on the whole machine");
    318 getrandom(output(arg(1), Ret), Size, Flags) => blocks(Handler);
    320 kexec_file_load(Fd, Fd, Size, Str, Flags) => errno(EPERM, "acts on the whole machine");
    321 bpf(Int, Addr, Uint) => errno(EPERM, "programs in the kernel act behind the tape");
    428 open_tree(DirFd, Str, Flags) => fds(Creates);
    429 move_mount(DirFd, Str, DirFd, Str, Flags);
    430 fsopen(Str, Flags) => fds(Creates);
    431 fsconfig(Fd, Uint, Str, Addr, Int);
    432 fsmount(Fd, Flags, Flags) => fds(Creates);
    433 fspick(DirFd, Str, Flags) => fds(Creates);
    442 mount_setattr(DirFd, Str, Flags, input(arg(4)), Size);
    443 quotactl_fd(Fd, Hex, Int, Select) => sub(SubTable::QuotactlFd);
    457 statmount(input(Special(SizeInside(0))), output(arg(2), Deref32(1)), Size, Flags);
    458 listmount(input(Special(SizeInside(0))), output(ArgTimes(2, structs::LONG), RetTimes(structs::LONG)),
        Size, Flags);
    467 open_tree_attr(DirFd, Str, Flags, Addr, Size) => enosys("newer than Linux 6.12");
}
