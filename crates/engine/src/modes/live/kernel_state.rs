//! The kernel's state of guest threads that are host threads: it is kept equal to the guest's.

use std::sync::atomic::{AtomicBool, Ordering};

use relive_host::signal::{
    Disposition, KernelAction, Mask, set_disposition, set_disposition_with, set_mask,
};
use relive_host::sys;
use rustix::process::{Signal, getpid, kill_process};

use crate::mode::Host;
use crate::registry::Registry;
use crate::sigaction::{SIG_IGN, host_disposition};

/// The process is traced: its tracer sees signals that the guest ignores. Process-wide: as are the actions of
/// signals, of which this is a part.
static ALL: AtomicBool = AtomicBool::new(false);

/// The kernel behind guest threads; the engine marks the robust locks of those that end.
pub static KERNEL: Kernel = Kernel { marks_locks: false };

/// The same, and the kernel marks the locks: where no tape has to say so.
pub static KERNEL_WITH_LISTS: Kernel = Kernel { marks_locks: true };

/// The kernel, which knows the host's threads.
pub struct Kernel {
    marks_locks: bool,
}

impl Host for Kernel {
    fn mask(&self, mask: Mask) {
        set_mask(mask.for_host());
    }

    fn action(&self, sig: i32, action: &KernelAction) {
        if !ALL.load(Ordering::Relaxed) {
            set_disposition_with(sig, host_disposition(sig, action), action.flags);
            return;
        }
        let ignores = sig == libc::SIGCHLD && action.handler == SIG_IGN;
        let flags = match ignores {
            true => action.flags | libc::SA_NOCLDWAIT as u64,
            false => action.flags,
        };
        set_disposition_with(sig, Disposition::Handler, flags);
    }

    fn take_all(&self, all: bool) {
        ALL.store(all, Ordering::Relaxed);
    }

    fn wake(&self, at: u64) {
        // The kernel's own exit path uses shared keys; the waiters may have used private ones.
        for private in [0, libc::FUTEX_PRIVATE_FLAG] {
            let op = (libc::FUTEX_WAKE | private) as u64;
            // SAFETY: wakes a waiter on a guest word; touches no memory.
            unsafe { sys::syscall(libc::SYS_futex as u64, [at, op, 1, 0, 0, 0]) };
        }
    }

    fn stop(&self, sig: i32) {
        set_disposition(sig, Disposition::Default);
        // As the signal would have stopped it.
        kill_process(getpid(), Signal::STOP).expect("a process may stop itself");
    }

    fn leaves(&self, registry: &Registry) -> bool {
        registry.ended()
    }

    fn robust_list(&self, head: u64, len: u64) {
        if self.marks_locks {
            // SAFETY: the kernel reads the list when this thread ends, and takes no bad one amiss.
            unsafe { sys::syscall(libc::SYS_set_robust_list as u64, [head, len, 0, 0, 0, 0]) };
        }
    }
}
