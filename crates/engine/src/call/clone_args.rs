//! The arguments of clone(2) and its kin, once they are checked: the objects that a new task shares with
//! its creator, and the places of its ids.

/// `CLONE_CLEAR_SIGHAND` of clone3(2): handlers are not inherited.
pub(crate) const CLEAR_SIGHAND: u64 = 1 << 32;

pub(crate) const VM: u64 = libc::CLONE_VM as u64;
pub(crate) const FS: u64 = libc::CLONE_FS as u64;
pub(crate) const FILES: u64 = libc::CLONE_FILES as u64;
pub(crate) const SIGHAND: u64 = libc::CLONE_SIGHAND as u64;
pub(crate) const PIDFD: u64 = libc::CLONE_PIDFD as u64;
pub(crate) const VFORK: u64 = libc::CLONE_VFORK as u64;
pub(crate) const PARENT: u64 = libc::CLONE_PARENT as u64;
pub(crate) const THREAD: u64 = libc::CLONE_THREAD as u64;
pub(crate) const SYSVSEM: u64 = libc::CLONE_SYSVSEM as u64;
pub(crate) const UNTRACED: u64 = libc::CLONE_UNTRACED as u64;
pub(crate) const DETACHED: u64 = libc::CLONE_DETACHED as u64;
pub(crate) const IO: u64 = libc::CLONE_IO as u64;
/// Namespaces of the new process's own. That of time has no bit in clone(2).
pub(crate) const NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;
/// The objects that a new task shares, and the places of its ids.
#[derive(Clone, Copy, Default)]
pub struct CloneArgs {
    /// CLONE_* bits, without the exit signal.
    pub flags: u64,
    /// Sent to the parent when it ends; 0 = none.
    pub signal: u64,
    /// First stack pointer; 0 = the parent's.
    pub stack: u64,
    /// Where the parent's descriptor of the child goes.
    pub pidfd: u64,
    /// Where its id goes in the parent's memory.
    pub parent_tid: u64,
    /// Where its id goes in its own memory.
    pub child_tid: u64,
    /// Its FS base.
    pub tls: u64,
}

impl CloneArgs {
    /// As fork(2).
    #[must_use]
    pub fn fork() -> Self {
        Self {
            signal: libc::SIGCHLD as u64,
            ..Self::default()
        }
    }

    /// As vfork(2).
    #[must_use]
    pub fn vfork() -> Self {
        Self {
            flags: VM | VFORK,
            ..Self::fork()
        }
    }

    /// Whether a CLONE_* flag is set.
    #[must_use]
    pub fn has(&self, flag: i32) -> bool {
        self.flags & flag as u64 != 0
    }

    /// The flags and the signal that the host's own call of clone(2) passes to the kernel for the new
    /// process, besides `CLONE_VM` and `CLONE_VFORK`.
    #[must_use]
    pub fn for_host(&self) -> u64 {
        self.flags & (FS | FILES | SIGHAND | PIDFD | PARENT | SYSVSEM | IO | NAMESPACES)
            | self.signal
    }

    /// Whether the child begins without its parent's signal actions.
    #[must_use]
    pub fn clears_actions(&self) -> bool {
        self.flags & CLEAR_SIGHAND != 0
    }
}
