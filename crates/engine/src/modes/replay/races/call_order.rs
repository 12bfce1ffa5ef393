//! The order that system calls make among threads: which objects a call releases when it is made, and
//! which it acquires when it has returned. A table; calls without a line order nothing.
//!
//! Too much order hides races, and too little makes them up: where the kernel's object is not known
//! (sockets, signals, locks of files) all of its kind are one.

use std::collections::BTreeMap;

use relive_host::{GuestAddr, copy};

use super::detector::Detector;
use super::touch::{SyncObject, Use};

/// A system call of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Called {
    pub nr: u32,
    pub args: [u64; 6],
}

/// The meaning of a call for the order of threads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CallOrder {
    /// The word at the first argument, and at the fifth.
    Futex,
    /// Writes to the descriptor in the first argument.
    Writes,
    /// Reads from it.
    Reads,
    /// Reads from the descriptor in one argument and writes to that in another one, by their numbers.
    Moves(usize, usize),
    /// Waits until descriptors are ready.
    Waits,
    /// Says which descriptors to wait for.
    Asks,
    /// Sends a signal.
    Sends,
    /// Takes a signal.
    Takes,
    Ipc,
    Barrier,
}

/// The table.
const ORDERS: &[(i64, CallOrder)] = &[
    (libc::SYS_futex, CallOrder::Futex),
    (libc::SYS_write, CallOrder::Writes),
    (libc::SYS_writev, CallOrder::Writes),
    (libc::SYS_pwrite64, CallOrder::Writes),
    (libc::SYS_pwritev, CallOrder::Writes),
    (libc::SYS_pwritev2, CallOrder::Writes),
    (libc::SYS_sendto, CallOrder::Writes),
    (libc::SYS_sendmsg, CallOrder::Writes),
    (libc::SYS_sendmmsg, CallOrder::Writes),
    (libc::SYS_shutdown, CallOrder::Writes),
    (libc::SYS_close, CallOrder::Writes),
    (libc::SYS_timerfd_settime, CallOrder::Writes),
    (libc::SYS_connect, CallOrder::Writes),
    (libc::SYS_read, CallOrder::Reads),
    (libc::SYS_readv, CallOrder::Reads),
    (libc::SYS_pread64, CallOrder::Reads),
    (libc::SYS_preadv, CallOrder::Reads),
    (libc::SYS_preadv2, CallOrder::Reads),
    (libc::SYS_recvfrom, CallOrder::Reads),
    (libc::SYS_recvmsg, CallOrder::Reads),
    (libc::SYS_recvmmsg, CallOrder::Reads),
    (libc::SYS_accept, CallOrder::Reads),
    (libc::SYS_accept4, CallOrder::Reads),
    (libc::SYS_splice, CallOrder::Moves(0, 2)),
    (libc::SYS_tee, CallOrder::Moves(0, 1)),
    // Into a pipe or out of it.
    (libc::SYS_vmsplice, CallOrder::Moves(0, 0)),
    (libc::SYS_sendfile, CallOrder::Moves(1, 0)),
    (libc::SYS_copy_file_range, CallOrder::Moves(0, 2)),
    (libc::SYS_poll, CallOrder::Waits),
    (libc::SYS_ppoll, CallOrder::Waits),
    (libc::SYS_select, CallOrder::Waits),
    (libc::SYS_pselect6, CallOrder::Waits),
    (libc::SYS_epoll_wait, CallOrder::Waits),
    (libc::SYS_epoll_pwait, CallOrder::Waits),
    (libc::SYS_epoll_pwait2, CallOrder::Waits),
    (libc::SYS_epoll_ctl, CallOrder::Asks),
    (libc::SYS_kill, CallOrder::Sends),
    (libc::SYS_tkill, CallOrder::Sends),
    (libc::SYS_tgkill, CallOrder::Sends),
    (libc::SYS_rt_sigqueueinfo, CallOrder::Sends),
    (libc::SYS_rt_tgsigqueueinfo, CallOrder::Sends),
    (libc::SYS_timer_settime, CallOrder::Sends),
    (libc::SYS_setitimer, CallOrder::Sends),
    (libc::SYS_rt_sigaction, CallOrder::Sends),
    (libc::SYS_rt_sigtimedwait, CallOrder::Takes),
    (libc::SYS_semop, CallOrder::Ipc),
    (libc::SYS_semtimedop, CallOrder::Ipc),
    (libc::SYS_msgsnd, CallOrder::Ipc),
    (libc::SYS_msgrcv, CallOrder::Ipc),
    (libc::SYS_mq_timedsend, CallOrder::Ipc),
    (libc::SYS_mq_timedreceive, CallOrder::Ipc),
    (libc::SYS_flock, CallOrder::Ipc),
    (libc::SYS_fcntl, CallOrder::Ipc),
    (libc::SYS_membarrier, CallOrder::Barrier),
];

fn order(nr: u32) -> Option<CallOrder> {
    let mut rows = ORDERS.iter();
    rows.find(|(n, _)| *n == i64::from(nr))
        .map(|(_, order)| *order)
}

/// The objects behind descriptors.
#[derive(Default)]
pub struct Descriptors {
    objects: BTreeMap<u32, SyncObject>,
    /// The files that have been opened, by their names: two threads may open one named pipe.
    paths: BTreeMap<Vec<u8>, SyncObject>,
    next: u64,
    /// There is a descriptor that tells of calls on files.
    watches: bool,
}

impl Descriptors {
    fn of(&self, fd: u64) -> SyncObject {
        let known = self.objects.get(&(fd as u32));
        known.copied().unwrap_or(SyncObject::Unknown)
    }

    fn set(&mut self, fd: u64, object: SyncObject) {
        self.objects.insert(fd as u32, object);
    }

    fn fresh(&mut self) -> SyncObject {
        self.next += 1;
        SyncObject::File(self.next)
    }

    /// Notes the descriptors that a call made or closed.
    fn changed(&mut self, call: &Called, result: u64) {
        let [first, second, ..] = call.args;
        match i64::from(call.nr) {
            libc::SYS_pipe | libc::SYS_pipe2 => self.pair(first),
            libc::SYS_socketpair => self.pair(call.args[3]),
            libc::SYS_eventfd
            | libc::SYS_eventfd2
            | libc::SYS_timerfd_create
            | libc::SYS_memfd_create => {
                let object = self.fresh();
                self.set(result, object);
            }
            libc::SYS_signalfd | libc::SYS_signalfd4 => self.set(result, SyncObject::Signals),
            libc::SYS_inotify_init | libc::SYS_inotify_init1 | libc::SYS_fanotify_init => {
                self.watches = true;
                self.set(result, SyncObject::Watched);
            }
            libc::SYS_socket | libc::SYS_accept | libc::SYS_accept4 => {
                self.set(result, SyncObject::Sockets);
            }
            libc::SYS_ioctl if second == libc::TIOCGPTPEER => {
                self.set(result, SyncObject::Terminals);
            }
            libc::SYS_dup => self.set(result, self.of(first)),
            libc::SYS_dup2 | libc::SYS_dup3 => self.set(second, self.of(first)),
            libc::SYS_fcntl if matches!(second as i32, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => {
                self.set(result, self.of(first));
            }
            libc::SYS_close => drop(self.objects.remove(&(first as u32))),
            libc::SYS_close_range if call.args[2] as u32 & libc::CLOSE_RANGE_CLOEXEC == 0 => {
                self.objects
                    .retain(|fd, _| !(first as u32..=second as u32).contains(fd));
            }
            libc::SYS_open | libc::SYS_creat => self.opened(first, result),
            libc::SYS_openat | libc::SYS_openat2 => self.opened(second, result),
            _ => {}
        }
    }

    /// A descriptor of the file with the name at an address.
    fn opened(&mut self, name: u64, fd: u64) {
        let mut path = Vec::new();
        let object = match copy::read_cstr(GuestAddr(name), libc::PATH_MAX as usize, &mut path) {
            Ok(()) => self.file(path),
            Err(_) => SyncObject::Unknown,
        };
        self.set(fd, object);
    }

    /// The object that a path leads to.
    fn file(&mut self, path: Vec<u8>) -> SyncObject {
        const DESCRIPTORS: [&[u8]; 2] = [b"/proc/self/fd/", b"/dev/fd/"];
        const TERMINALS: [&[u8]; 3] = [b"/dev/pts/", b"/dev/ptmx", b"/dev/tty"];
        let number = |of: &[u8]| {
            std::str::from_utf8(path.strip_prefix(of)?)
                .ok()?
                .parse()
                .ok()
        };
        if let Some(fd) = DESCRIPTORS.into_iter().find_map(number) {
            return self.of(fd);
        }
        if TERMINALS.iter().any(|of| path.starts_with(of)) {
            return SyncObject::Terminals;
        }
        let known = self.paths.get(&path).copied();
        known.unwrap_or_else(|| {
            let object = self.fresh();
            self.paths.insert(path, object);
            object
        })
    }

    /// Two descriptors of one object, as the kernel has stored them.
    fn pair(&mut self, at: u64) {
        let mut bytes = [0; 8];
        if copy::read(GuestAddr(at), &mut bytes).is_ok() {
            let both = u64::from_le_bytes(bytes);
            let object = self.fresh();
            self.set(both, object);
            self.set(both >> 32, object);
        }
    }
}

/// A call is about to be made.
pub fn before(call: &Called, descriptors: &Descriptors, detector: &mut Detector) {
    if descriptors.watches {
        detector.uses(SyncObject::Watched, Use::Release);
        detector.uses(SyncObject::Readiness, Use::Release);
    }
    match order(call.nr) {
        Some(CallOrder::Futex) => words(call, detector, Use::Release),
        Some(CallOrder::Writes) => writes(call.args[0], descriptors, detector),
        Some(CallOrder::Moves(_, to)) => writes(call.args[to], descriptors, detector),
        Some(CallOrder::Asks) => detector.uses(SyncObject::Readiness, Use::Release),
        Some(CallOrder::Sends) => detector.uses(SyncObject::Signals, Use::Release),
        Some(CallOrder::Ipc) => detector.uses(SyncObject::Ipc, Use::Release),
        Some(CallOrder::Barrier) => detector.barrier(),
        Some(CallOrder::Reads | CallOrder::Waits | CallOrder::Takes) | None => {}
    }
}

/// A call has returned.
pub fn behind(call: &Called, result: u64, descriptors: &mut Descriptors, detector: &mut Detector) {
    match order(call.nr) {
        Some(CallOrder::Futex) => words(call, detector, Use::Acquire),
        Some(CallOrder::Reads) => detector.uses(descriptors.of(call.args[0]), Use::Acquire),
        Some(CallOrder::Moves(from, _)) => {
            detector.uses(descriptors.of(call.args[from]), Use::Acquire);
        }
        Some(CallOrder::Waits) => detector.uses(SyncObject::Readiness, Use::Acquire),
        Some(CallOrder::Takes) => detector.uses(SyncObject::Signals, Use::Acquire),
        Some(CallOrder::Ipc) => detector.uses(SyncObject::Ipc, Use::Acquire),
        _ => {}
    }
    if result as i64 >= 0 {
        descriptors.changed(call, result);
        mapped(call, result, detector);
    }
}

/// A descriptor is written to.
fn writes(fd: u64, descriptors: &Descriptors, detector: &mut Detector) {
    detector.uses(descriptors.of(fd), Use::Release);
    detector.uses(SyncObject::Readiness, Use::Release);
}

/// The words of a futex call.
fn words(call: &Called, detector: &mut Detector, how: Use) {
    const TWO: [i32; 4] = [
        libc::FUTEX_REQUEUE,
        libc::FUTEX_CMP_REQUEUE,
        libc::FUTEX_WAKE_OP,
        libc::FUTEX_WAIT_REQUEUE_PI,
    ];
    const OPERATION: u64 = 0x7f;
    let second = TWO
        .contains(&((call.args[1] & OPERATION) as i32))
        .then_some(call.args[4]);
    for addr in [Some(call.args[0]), second].into_iter().flatten() {
        detector.synchronises(addr, 4);
        detector.uses(SyncObject::Word(addr / 4 * 4), how);
    }
}

/// Memory that a call has put in place of other memory, or has emptied.
fn mapped(call: &Called, result: u64, detector: &mut Detector) {
    let [addr, len, new_len, ..] = call.args;
    match i64::from(call.nr) {
        libc::SYS_mmap => detector.renew(result, result.saturating_add(len)),
        libc::SYS_munmap => detector.renew(addr, addr.saturating_add(len)),
        libc::SYS_mremap => {
            detector.renew(addr, addr.saturating_add(len));
            detector.renew(result, result.saturating_add(new_len));
        }
        libc::SYS_madvise if new_len as i32 == libc::MADV_DONTNEED => {
            detector.renew(addr, addr.saturating_add(len));
        }
        _ => {}
    }
}
