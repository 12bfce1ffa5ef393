//! Signals. The guest's signal state is the engine's, so nearly every call here is a hook.

use crate::dsl::*;

rows! {
    13 rt_sigaction(Sig, input_of(structs::SIGACTION), output_of(structs::SIGACTION), Size)
        => hook("the guest's handlers are ours to call"), shares();
    14 rt_sigprocmask(Int, input(arg(3)), output(arg(3), arg(3)), Size)
        => hook("the guest's mask is ours");
    15 rt_sigreturn() => hook("the guest's frames are ours"), strict();
    34 pause() => blocks(NoHandler);
    62 kill(Pid, Sig) => hook("may end or stop the caller");
    127 rt_sigpending(output(arg(1), arg(1)), Size) => hook("the guest's pending set is ours");
    128 rt_sigtimedwait(input(arg(3)), output_of(structs::SIGINFO), input_of(structs::TIMESPEC),
        Size) => blocks(NotRestarted), hook("takes from the guest's pending set");
    129 rt_sigqueueinfo(Pid, Sig, input_of(structs::SIGINFO)) => hook("may end or stop the caller");
    130 rt_sigsuspend(input(arg(1)), Size) => blocks(NoHandler), hook("the guest's mask is ours");
    131 sigaltstack(input_of(structs::STACK), output_of(structs::STACK))
        => hook("the host needs the real one");
    200 tkill(Pid, Sig) => hook("may end or stop the caller");
    219 restart_syscall() => errno(EINTR, "the engine restarts calls itself");
    234 tgkill(Pid, Pid, Sig) => hook("may end or stop the caller");
    282 signalfd(Fd, input(arg(2)), Size)
        => fds(Creates), hook("reads from the guest's pending set");
    289 signalfd4(Fd, input(arg(2)), Size, Flags)
        => fds(Creates), hook("reads from the guest's pending set");
    297 rt_tgsigqueueinfo(Pid, Pid, Sig, input_of(structs::SIGINFO))
        => hook("may end or stop the caller");
    424 pidfd_send_signal(Fd, Sig, input_of(structs::SIGINFO), Flags)
        => hook("may end or stop the caller");
}
