//! The filter in a child that confines itself and then tries.

use super::*;
use std::io::{Read, Write};

/// Makes one call: 0 if it succeeds, else its errno.
fn call(nr: c_long, args: [u64; 6]) -> i32 {
    // SAFETY: the calls of these tests get null pointers or C strings, and happen in a
    // process of their own.
    let got = unsafe { libc::syscall(nr, args[0], args[1], args[2], args[3], args[4], args[5]) };
    if got < 0 {
        std::io::Error::last_os_error().raw_os_error().unwrap_or(98)
    } else {
        0
    }
}

/// wait(2) status of a confined child that makes one call and exits with its result.
fn confined(nr: c_long, args: [u64; 6]) -> i32 {
    in_child(|| call(nr, args))
}

/// wait(2) status of a confined child that exits with the result of `body`.
fn in_child(body: impl FnOnce() -> i32) -> i32 {
    in_child_with(ReplayRights::Plain, body)
}

/// The same with other rights.
fn in_child_with(rights: ReplayRights, body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child makes calls that are safe in a fork of a threaded process (glibc
    // keeps its allocator usable there) and ends without running destructors.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: sets a limit of the child, so that it leaves no core file when it is killed.
        unsafe {
            libc::setrlimit(
                libc::RLIMIT_CORE,
                &libc::rlimit {
                    rlim_cur: 0,
                    rlim_max: 0,
                },
            )
        };
        let code = if enter(rights).is_ok() { body() } else { 99 };
        // SAFETY: ends the child.
        unsafe { libc::_exit(code) };
    }
    assert!(pid > 0);
    wait(pid)
}

fn wait(pid: i32) -> i32 {
    let mut status = 0;
    // SAFETY: waits for a child of this process.
    assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
    status
}

fn killed(status: i32) -> bool {
    libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGSYS
}

fn path(text: &'static std::ffi::CStr) -> u64 {
    text.as_ptr() as u64
}

#[test]
fn calls_that_a_replay_needs_are_allowed() {
    let map = |prot: i32| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        confined(
            libc::SYS_mmap,
            [0, 4096, prot as u64, flags as u64, u64::MAX, 0],
        )
    };
    assert_eq!(map(libc::PROT_READ | libc::PROT_WRITE), 0);
    assert!(killed(map(libc::PROT_READ | libc::PROT_EXEC)));
    assert_eq!(
        confined(libc::SYS_memfd_create, [path(c"test"), 0, 0, 0, 0, 0]),
        0
    );
    assert_eq!(confined(libc::SYS_getpid, [0; 6]), 0);
    // Messages, which there are none of here: 0 is no socket.
    let none = confined(libc::SYS_recvmsg, [0; 6]);
    assert!(matches!(
        libc::WEXITSTATUS(none),
        libc::ENOTSOCK | libc::EBADF | libc::EFAULT
    ));
}

#[test]
fn only_the_code_cache_may_be_mapped_executable() {
    let fixed = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    let map = |start: u64, len: u64, flags: i32| {
        let prot = (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC) as u64;
        confined(
            libc::SYS_mmap,
            [start, len, prot, flags as u64, u64::MAX, 0],
        )
    };
    for (start, end) in [
        (CACHE_START, CACHE_START + 4096),
        (CACHE_END - 4096, CACHE_END),
        (CACHE_START, CACHE_END),
    ] {
        assert_eq!(map(start, end - start, fixed), 0, "{start:#x}");
    }
    let kept_out = [
        (CACHE_START, 4096, fixed & !libc::MAP_FIXED),
        (CACHE_START - 4096, 8192, fixed),
        (CACHE_END - 4096, 8192, fixed),
        (CACHE_END, 4096, fixed),
        (CACHE_START, CACHE_END - CACHE_START + 4096, fixed),
        (CACHE_START | 1 << 32, 4096, fixed),
        (CACHE_START, 4096 | 1 << 32, fixed),
        (CACHE_END - 4096, 1 << 32 | 4096, fixed),
        (0xffff_f000, 4096, fixed),
        (CACHE_START, 0xffff_f000, fixed),
    ];
    for (start, len, flags) in kept_out {
        assert!(killed(map(start, len, flags)), "{start:#x} {len:#x}");
    }
}

#[test]
fn all_else_kills() {
    let name = path(c"/nonexistent/relive");
    let here = path(c"/dev/null");
    let create = (libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC) as u64;
    let at = libc::AT_FDCWD as u64;
    let calls = [
        (libc::SYS_openat, [at, here, libc::O_RDONLY as u64, 0, 0, 0]),
        (libc::SYS_openat, [at, here, create, 0o600, 0, 0]),
        (libc::SYS_openat, [at, here, libc::O_PATH as u64, 0, 0, 0]),
        (libc::SYS_statx, [at, here, 0, 0, 0, 0]),
        (
            libc::SYS_statx,
            [0, path(c""), libc::AT_EMPTY_PATH as u64, 0, 0, 0],
        ),
        (libc::SYS_newfstatat, [at, here, 0, 0, 0, 0]),
        (libc::SYS_stat, [here, 0, 0, 0, 0, 0]),
        (libc::SYS_access, [here, 0, 0, 0, 0, 0]),
        (libc::SYS_readlink, [here, 0, 0, 0, 0, 0]),
        (libc::SYS_chdir, [here, 0, 0, 0, 0, 0]),
        (libc::SYS_mount, [here, here, here, 0, 0, 0]),
        (libc::SYS_read, [0; 6]),
        (libc::SYS_readv, [0; 6]),
        (libc::SYS_sendmsg, [0; 6]),
        (libc::SYS_sendmmsg, [0; 6]),
        (libc::SYS_recvfrom, [0; 6]),
        (libc::SYS_socketpair, [0; 6]),
        (libc::SYS_bind, [0; 6]),
        (libc::SYS_accept4, [0; 6]),
        (libc::SYS_dup2, [0; 6]),
        (libc::SYS_sendfile, [0; 6]),
        (libc::SYS_splice, [0; 6]),
        (libc::SYS_pidfd_getfd, [0; 6]),
        (libc::SYS_pidfd_send_signal, [0; 6]),
        (
            libc::SYS_tkill,
            [u64::from(std::process::id()), 0, 0, 0, 0, 0],
        ),
        (
            libc::SYS_rt_sigqueueinfo,
            [u64::from(std::process::id()), 0, 0, 0, 0, 0],
        ),
        (libc::SYS_shmget, [0; 6]),
        (libc::SYS_userfaultfd, [0; 6]),
        (libc::SYS_landlock_create_ruleset, [0, 0, 1, 0, 0, 0]),
        (libc::SYS_fcntl, [0, libc::F_NOTIFY as u64, 0, 0, 0, 0]),
        (libc::SYS_socket, [2, 1, 0, 0, 0, 0]),
        (libc::SYS_connect, [0; 6]),
        (libc::SYS_sendto, [0; 6]),
        (libc::SYS_execve, [name, 0, 0, 0, 0, 0]),
        (libc::SYS_execveat, [0, name, 0, 0, 0, 0]),
        (libc::SYS_open, [name, libc::O_RDONLY as u64, 0, 0, 0, 0]),
        (libc::SYS_creat, [name, 0o600, 0, 0, 0, 0]),
        (libc::SYS_openat2, [0, name, 0, 0, 0, 0]),
        (libc::SYS_unlink, [name, 0, 0, 0, 0, 0]),
        (libc::SYS_unlinkat, [0, name, 0, 0, 0, 0]),
        (libc::SYS_rename, [name, name, 0, 0, 0, 0]),
        (libc::SYS_truncate, [name, 0, 0, 0, 0, 0]),
        (libc::SYS_mkdir, [name, 0, 0, 0, 0, 0]),
        (libc::SYS_symlink, [name, name, 0, 0, 0, 0]),
        (libc::SYS_chmod, [name, 0, 0, 0, 0, 0]),
        (libc::SYS_ptrace, [0; 6]),
        (libc::SYS_process_vm_readv, [0; 6]),
        (libc::SYS_process_vm_writev, [0; 6]),
        (libc::SYS_pidfd_open, [1, 0, 0, 0, 0, 0]),
        (
            libc::SYS_kill,
            [u64::from(std::process::id()), 0, 0, 0, 0, 0],
        ),
        (libc::SYS_prctl, [0; 6]),
        (libc::SYS_seccomp, [0; 6]),
        (libc::SYS_bpf, [0; 6]),
        (libc::SYS_io_uring_setup, [0; 6]),
        (libc::SYS_setuid, [0; 6]),
        (libc::SYS_ioctl, [0, libc::TIOCSTI, 0, 0, 0, 0]),
        (libc::SYS_fcntl, [0, libc::F_SETOWN as u64, 1, 0, 0, 0]),
        (libc::SYS_prlimit64, [1, 0, 0, 0, 0, 0]),
        (libc::SYS_mprotect, [0, 0, libc::PROT_EXEC as u64, 0, 0, 0]),
        (
            libc::SYS_clone,
            [(libc::CLONE_NEWUSER | libc::SIGCHLD) as u64, 0, 0, 0, 0, 0],
        ),
        (libc::SYS_clone3, [0; 6]),
        // The other numbering of this machine (x32): getpid.
        (0x4000_0000 | libc::SYS_getpid, [0; 6]),
    ];
    for (nr, args) in calls {
        let status = confined(nr, args);
        assert!(killed(status), "call {nr} ended with {status:#x}");
    }
}

#[test]
fn calls_of_the_old_gate_kill() {
    let status = in_child(|| {
        let pid: u32;
        // SAFETY: getpid through the 32-bit gate, which changes nothing but eax (and r8
        // to r11 on old kernels).
        unsafe {
            std::arch::asm!("int 0x80", inout("eax") 20 => pid, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
        }
        i32::from(pid == 0)
    });
    // A kernel without that gate answers with a fault.
    assert!(
        killed(status) || libc::WTERMSIG(status) == libc::SIGSEGV,
        "{status:#x}"
    );
}

#[test]
fn a_fork_is_confined_and_has_no_signals() {
    let (mut from, mut to) = std::io::pipe().unwrap();
    let status = in_child(|| {
        // SAFETY: as in `in_child`; the calls are a signal to itself and a socket.
        unsafe {
            if libc::fork() == 0 {
                let pid = libc::getpid();
                let refused = libc::syscall(libc::SYS_tgkill, pid, pid, libc::SIGTERM) != 0
                    && *libc::__errno_location() == libc::EPERM;
                let _ = to.write_all(if refused { b"refused" } else { b"sent" });
                libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0);
                let _ = to.write_all(b" and free");
                libc::_exit(0);
            }
        }
        0
    });
    drop(to);
    assert_eq!(status, 0);
    let mut said = String::new();
    from.read_to_string(&mut said).unwrap();
    assert_eq!(said, "refused");
}

#[test]
fn a_signal_to_itself_is_allowed_and_to_others_refused() {
    let own = in_child(|| {
        let (pid, term) = (std::process::id(), libc::SIGTERM);
        // SAFETY: ends this child.
        unsafe { libc::syscall(libc::SYS_tgkill, pid, pid, term) as i32 }
    });
    assert!(libc::WIFSIGNALED(own) && libc::WTERMSIG(own) == libc::SIGTERM);
    let harness = u64::from(std::process::id());
    let other = confined(libc::SYS_tgkill, [harness, harness, 0, 0, 0, 0]);
    assert_eq!(libc::WEXITSTATUS(other), libc::EPERM);
}

extern "C" fn nothing(_: *mut libc::c_void) -> *mut libc::c_void {
    std::ptr::null_mut()
}

/// Makes a thread and waits for it: 0, or an error number.
fn thread() -> i32 {
    let mut id = 0;
    // SAFETY: the thread does nothing, and is waited for.
    unsafe {
        match libc::pthread_create(&raw mut id, std::ptr::null(), nothing, std::ptr::null_mut()) {
            0 => libc::pthread_join(id, std::ptr::null_mut()),
            error => error,
        }
    }
}

#[test]
fn a_parallel_replay_makes_threads_and_no_process() {
    let fork = || call(libc::SYS_clone, [FORK.into(), 0, 0, 0, 0, 0]);
    assert_eq!(in_child_with(ReplayRights::Threads, thread), 0);
    assert!(killed(in_child_with(ReplayRights::Threads, fork)));
    assert!(killed(in_child_with(ReplayRights::Plain, thread)));
    // To another process.
    let outside = || {
        let to = u64::from(std::os::unix::process::parent_id());
        call(libc::SYS_rt_tgsigqueueinfo, [to, to, 0, 0, 0, 0])
    };
    let refused = in_child_with(ReplayRights::Threads, outside);
    assert!(killed(refused) || libc::WEXITSTATUS(refused) == libc::EPERM);
}
