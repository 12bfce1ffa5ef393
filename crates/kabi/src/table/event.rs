//! Waiting for many events at once, and objects made to be waited for.

use crate::arg::Arg;
use crate::dsl::*;

/// An `fd_set` of select(2), whose `nfds` is the first argument.
const FDS: Arg = inout(Special(FdSet(0)));
/// The array of poll(2): the kernel writes `revents` even when it was interrupted.
const POLLFDS: Arg = always(inout(Special(PollFds(1))));
/// The time left is written back, after success, a timeout and a signal alike.
const TIME_LEFT: Arg = always(inout_of(structs::TIMESPEC));
const EVENTS: Arg = output(
    ArgTimes(2, structs::EPOLL_EVENT),
    RetTimes(structs::EPOLL_EVENT),
);

rows! {
    7 poll(POLLFDS, Uint, Int) => blocks(Timed);
    23 select(Int, FDS, FDS, FDS, TIME_LEFT) => blocks(NoHandler);
    202 futex(Addr, Int, Uint, Addr, Addr, Uint)
        => blocks(Futex), hook("with a timeout, restarted only when no handler ran");
    206 io_setup(Uint, Addr) => enosys("the kernel would write memory at any time");
    207 io_destroy(Addr) => enosys("goes with io_setup");
    208 io_getevents(Addr, Off, Off, Addr, Addr) => enosys("goes with io_setup");
    209 io_submit(Addr, Off, Addr) => enosys("goes with io_setup");
    210 io_cancel(Addr, Addr, Addr) => enosys("goes with io_setup");
    213 epoll_create(Int) => fds(Creates);
    214 epoll_ctl_old() => enosys("not in Linux any more");
    215 epoll_wait_old() => enosys("not in Linux any more");
    232 epoll_wait(Fd, EVENTS, Int, Int) => blocks(NotRestarted);
    233 epoll_ctl(Fd, Int, Fd, input_of(structs::EPOLL_EVENT));
    253 inotify_init() => fds(Creates);
    254 inotify_add_watch(Fd, Str, Flags);
    255 inotify_rm_watch(Fd, Int);
    270 pselect6(Int, FDS, FDS, FDS, TIME_LEFT, TempMaskPair) => blocks(NoHandler);
    271 ppoll(POLLFDS, Uint, TIME_LEFT, mask(4), Size) => blocks(NoHandler);
    281 epoll_pwait(Fd, EVENTS, Int, Int, mask(5), Size) => blocks(NotRestarted);
    284 eventfd(Uint) => fds(Creates);
    290 eventfd2(Uint, Flags) => fds(Creates);
    291 epoll_create1(Flags) => fds(Creates);
    294 inotify_init1(Flags) => fds(Creates);
    298 perf_event_open(Addr, Pid, Int, Fd, Flags) => enosys("counts the host, not the guest");
    300 fanotify_init(Flags, Flags) => enosys("would have to allow the recorder's own accesses");
    301 fanotify_mark(Fd, Flags, Hex, DirFd, Str) => enosys("goes with fanotify_init");
    333 io_pgetevents(Addr, Off, Off, Addr, Addr, Addr) => enosys("goes with io_setup");
    425 io_uring_setup(Uint, Addr) => enosys("the kernel would write memory at any time");
    426 io_uring_enter(Fd, Uint, Uint, Flags, Addr, Size) => enosys("goes with io_uring_setup");
    427 io_uring_register(Fd, Uint, Addr, Uint) => enosys("goes with io_uring_setup");
    441 epoll_pwait2(Fd, EVENTS, Int, input_of(structs::TIMESPEC), mask(5), Size)
        => blocks(NotRestarted);
    449 futex_waitv(Addr, Uint, Flags, Addr, Int)
        => blocks(NotRestarted), hook("waits as futex does");
    454 futex_wake(Addr, Hex, Int, Flags) => enosys("programs fall back to futex");
    455 futex_wait(Addr, Hex, Hex, Flags, Addr, Int) => enosys("programs fall back to futex");
    456 futex_requeue(Addr, Flags, Int, Int) => enosys("programs fall back to futex");
}
