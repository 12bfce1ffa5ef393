//! A second confinement behind the filter, where the kernel has Landlock (landlock(7)): no file by
//! any name, no TCP, no signal to a process outside and no abstract socket of one, by any system
//! call that might be found for that. It does not concern open descriptors, memory files and
//! messages on the replay's socket. A replay must never rely on it: many kernels lack it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use relive_host::sys;

/// `struct landlock_ruleset_attr` of linux/landlock.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ruleset {
    /// The rights forbidden in file systems; there is no rule that allows any of them.
    files: u64,
    /// The same for the network.
    net: u64,
    /// The rights forbidden with processes outside.
    scoped: u64,
}

/// `LANDLOCK_CREATE_RULESET_VERSION`: asks for the version of the interface.
const VERSION: u64 = 1;
/// Bits of the first version: from `LANDLOCK_ACCESS_FS_EXECUTE` to `…_MAKE_SYM`.
const FILES: u64 = (1 << 13) - 1;
/// `LANDLOCK_ACCESS_FS_REFER`, version 2.
const REFER: u64 = 1 << 13;
/// `LANDLOCK_ACCESS_FS_TRUNCATE`, version 3.
const TRUNCATE: u64 = 1 << 14;
/// `LANDLOCK_ACCESS_NET_BIND_TCP` and `…_CONNECT_TCP`, version 4.
const TCP: u64 = 3;
/// `LANDLOCK_ACCESS_FS_IOCTL_DEV`, version 5.
const IOCTL_DEV: u64 = 1 << 15;
/// `LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET` and `…_SIGNAL`, version 6.
const SCOPES: u64 = 3;

/// All that a version knows to forbid, and how many bytes of the structure it knows.
fn all(version: i64) -> (Ruleset, usize) {
    let since = |first: i64, bits: u64| if version >= first { bits } else { 0 };
    let rules = Ruleset {
        files: FILES | since(2, REFER) | since(3, TRUNCATE) | since(5, IOCTL_DEV),
        net: since(4, TCP),
        scoped: since(6, SCOPES),
    };
    let size = match version {
        ..4 => 8,
        4 | 5 => 16,
        _ => 24,
    };
    (rules, size)
}

/// Forbids the calling thread all of that for good; it must have given up to get privileges by
/// exec. `false`: the kernel has no Landlock, or not for this process.
///
/// # Errors
/// It has, and refuses all the same.
pub fn enter() -> io::Result<bool> {
    // SAFETY: only asks.
    let version = unsafe { call(libc::SYS_landlock_create_ruleset, [0, 0, VERSION]) };
    let Some(version @ 1..) = version.ok() else {
        return Ok(false);
    };
    let (rules, size) = all(version);
    let at = &raw const rules as u64;
    // SAFETY: the kernel reads `size` bytes of the structure, which has as many.
    let ruleset = unsafe { call(libc::SYS_landlock_create_ruleset, [at, size as u64, 0]) }?;
    // SAFETY: the descriptor is new, and has no other owner.
    let ruleset = unsafe { OwnedFd::from_raw_fd(ruleset as i32) };
    let args = [ruleset.as_raw_fd() as u64, 0, 0];
    // SAFETY: changes the rights of this thread, nothing in its memory.
    match unsafe { call(libc::SYS_landlock_restrict_self, args) } {
        Ok(_) => Ok(true),
        // The process is in as many Landlock domains as there can be.
        Err(e) if e.raw_os_error() == Some(libc::E2BIG) => Ok(false),
        Err(e) => Err(e),
    }
}

/// # Safety
/// As of the system call.
unsafe fn call(nr: i64, [a, b, c]: [u64; 3]) -> io::Result<i64> {
    // SAFETY: the caller vouches for the call.
    match unsafe { sys::syscall(nr as u64, [a, b, c, 0, 0, 0]) } as i64 {
        e @ ..0 => Err(io::Error::from_raw_os_error(-e as i32)),
        n => Ok(n),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_version_is_asked_for_no_more_than_it_knows() {
        assert_eq!(
            all(1),
            (
                Ruleset {
                    files: 0x1fff,
                    net: 0,
                    scoped: 0
                },
                8
            )
        );
        assert_eq!(all(3).0.files, 0x7fff);
        assert_eq!((all(4).0.net, all(4).0.scoped, all(4).1), (3, 0, 16));
        let newest = Ruleset {
            files: 0xffff,
            net: 3,
            scoped: 3,
        };
        assert_eq!(all(6), (newest, 24));
        assert_eq!(all(99), all(6), "newer versions are not known here");
    }

    /// Runs `body` in a child under Landlock; 0: all was right, or there is no Landlock here.
    fn behind(body: impl FnOnce() -> bool) -> i32 {
        // SAFETY: the child makes plain calls and ends.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            // SAFETY: a setting of the child.
            unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
            let right = match enter() {
                Ok(true) => body(),
                Ok(false) => true,
                Err(_) => false,
            };
            sys::exit_group(i32::from(!right));
        }
        let mut status = -1;
        // SAFETY: waits for the child made above.
        unsafe { libc::waitpid(pid, &raw mut status, 0) };
        status
    }

    fn errno() -> i32 {
        io::Error::last_os_error().raw_os_error().unwrap_or(0)
    }

    #[test]
    fn no_name_leads_to_a_file() {
        let open = std::fs::File::open("/dev/null").expect("it is there");
        let status = behind(|| {
            let flags = [libc::O_RDONLY, libc::O_WRONLY | libc::O_CREAT];
            // SAFETY: plain calls with strings that outlive them.
            let refused = flags.into_iter().all(|flags| unsafe {
                libc::open(c"/dev/null".as_ptr(), flags, 0o600) < 0 && errno() == libc::EACCES
            });
            // SAFETY: as above; a memory file of this child's.
            let works = unsafe {
                let memory = libc::memfd_create(c"x".as_ptr(), 0);
                let mut byte = 0_u8;
                libc::ftruncate(memory, 4096) == 0
                    && libc::read(open.as_raw_fd(), (&raw mut byte).cast(), 1) == 0
            };
            refused && works
        });
        assert_eq!(status, 0);
    }

    #[test]
    fn no_process_outside_is_signalled() {
        // SAFETY: only asks.
        let version = unsafe { call(libc::SYS_landlock_create_ruleset, [0, 0, VERSION]) };
        if version.is_ok_and(|v| v >= 6) {
            let parent = std::process::id() as i32;
            // SAFETY: signal 0 is not delivered.
            let status = behind(|| unsafe { libc::kill(parent, 0) < 0 && errno() == libc::EPERM });
            assert_eq!(status, 0);
        }
    }
}
