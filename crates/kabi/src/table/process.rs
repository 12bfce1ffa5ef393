//! Tasks: creating, ending, waiting for and describing them; identities and limits.

use crate::dsl::*;
use crate::sub_table::SubTable;

rows! {
    39 getpid();
    56 clone(Flags, Addr, Addr, Addr, Addr)
        => blocks(NotRestarted), fds(Table),
        hook("a new task, with a tape of its own; a process that shares memory is waited for"), makes(MakesFlags(0)), shares();
    57 fork() => hook("forks the host"), makes(Process), shares();
    58 vfork() => blocks(NotRestarted), hook("the child runs on the parent's memory until exec or exit"), makes(Process), shares();
    59 execve(Str, StrVec, StrVec)
        => fds(Table), hook("starts the host afresh on the new program"), again(), shares();
    60 exit(Int) => hook("ends the task"), strict(), shares();
    61 wait4(Pid, output_of(structs::INT), Flags, output_of(structs::RUSAGE)) => blocks(Handler), reports(Status(1));
    97 getrlimit(Int, output_of(structs::RLIMIT)) => hook("the guest's limits are its own");
    98 getrusage(Int, output_of(structs::RUSAGE));
    101 ptrace(Int, Pid, Addr, Hex)
        => hook("among recorded processes, by the host of the tracee");
    102 getuid();
    104 getgid();
    105 setuid(Int);
    106 setgid(Int);
    107 geteuid();
    108 getegid();
    109 setpgid(Pid, Pid);
    110 getppid();
    111 getpgrp();
    112 setsid();
    113 setreuid(Int, Int);
    114 setregid(Int, Int);
    115 getgroups(Int, output(ArgTimes(0, structs::INT), RetTimes(structs::INT)));
    116 setgroups(Int, input(ArgTimes(0, structs::INT)));
    117 setresuid(Int, Int, Int);
    118 getresuid(output_of(structs::INT), output_of(structs::INT), output_of(structs::INT));
    119 setresgid(Int, Int, Int);
    120 getresgid(output_of(structs::INT), output_of(structs::INT), output_of(structs::INT));
    121 getpgid(Pid);
    122 setfsuid(Int);
    123 setfsgid(Int);
    124 getsid(Pid);
    125 capget(always(inout_of(structs::CAP_HEADER)),
        output(Special(CapData(0)), Special(CapData(0))));
    126 capset(always(inout_of(structs::CAP_HEADER)), input(Special(CapData(0))));
    135 personality(Hex) => hook("must not change the host's own layout");
    157 prctl(Int, Select, Hex, Hex, Hex) => sub(SubTable::Prctl);
    158 arch_prctl(Int, Addr) => hook("the FS and GS bases of the guest, and its cpuid");
    160 setrlimit(Int, input_of(structs::RLIMIT)) => hook("the guest's limits are its own"), shares();
    186 gettid();
    205 set_thread_area(Addr) => enosys("does not exist for 64-bit programs");
    211 get_thread_area(Addr) => enosys("does not exist for 64-bit programs");
    218 set_tid_address(Addr) => hook("the engine clears the word when the task ends");
    231 exit_group(Int) => hook("ends the process"), shares();
    247 waitid(Int, Pid, always(output_of(structs::WAITID_SIGINFO)), Flags,
        output_of(structs::RUSAGE)) => blocks(Handler), reports(Info(2));
    272 unshare(Flags) => hook("the host opens what it will need before");
    273 set_robust_list(Addr, Size) => hook("the engine walks the list when the task ends");
    274 get_robust_list(Pid, output_of(structs::LONG), output_of(structs::LONG))
        => hook("goes with set_robust_list");
    302 prlimit64(Pid, Int, input_of(structs::RLIMIT), output_of(structs::RLIMIT))
        => hook("the guest's limits are its own"), shares();
    308 setns(Fd, Flags) => hook("the host opens what it will need before");
    312 kcmp(Pid, Pid, Int, Hex, Hex) => holds(Compared);
    317 seccomp(Uint, Flags, Addr) => hook("the engine runs the filters before each call"), shares();
    322 execveat(DirFd, Str, StrVec, StrVec, Flags)
        => fds(Table), hook("starts the host afresh on the new program"), again(), shares();
    324 membarrier(Int, Flags, Int);
    334 rseq(Addr, Uint, Flags, Uint) => enosys("the kernel would rewind translated code");
    335 uretprobe() => enosys("only for the kernel's own trampolines");
    434 pidfd_open(Pid, Flags) => fds(Creates);
    435 clone3(Addr, Size)
        => blocks(NotRestarted), fds(Table), hook("as clone, with its arguments in a structure"), makes(FlagsBehind(0)), shares();
    438 pidfd_getfd(Fd, Int, Flags) => fds(Finds), holds(OfPidfd(0));
    444 landlock_create_ruleset(Addr, Size, Flags) => enosys("would confine the host as well");
    445 landlock_add_rule(Fd, Int, Addr, Flags) => enosys("would confine the host as well");
    446 landlock_restrict_self(Fd, Flags) => enosys("would confine the host as well");
    459 lsm_get_self_attr(Uint, Addr, Addr, Flags) => enosys("programs fall back to /proc");
    460 lsm_set_self_attr(Uint, Addr, Uint, Flags) => enosys("would confine the host as well");
    461 lsm_list_modules(Addr, Addr, Flags) => enosys("programs fall back to /sys");
}
