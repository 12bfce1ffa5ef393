//! Confinement of a replaying host: a seccomp filter that allows the calls that a replay needs.
//!
//! A trace may come from a stranger, and its program runs inside the host process. So before
//! the first recorded instruction runs, the process gives up every system call that a replay
//! has no use for. From then on the host process is taken to be under the recorded program's
//! control: so each call that the filter allows must be harmless even then. It can use the
//! descriptors that are open already, and nothing else: no path is opened or looked at, no other
//! process touched, no program started, the network not reached. Files that are needed later come
//! from the supervisor (`crate::broker`). The filter passes to forked children and cannot be taken
//! off.
//!
//! A call that is not in the table kills the process with SIGSYS, which the supervisor
//! reports. It must never be answered with an error number instead: the call would be a
//! fault of Relive, and a replay that goes on in spite of it would hide that fault.

use std::mem::offset_of;

use libc::{c_long, seccomp_data, sock_filter};
use relive_host::layout::{CACHE_END, CACHE_START};

use crate::failure::{Failure, Result};

/// The condition on a system call's arguments. Arguments are compared in their low 32 bits; the
/// kernel ignores the high ones of the arguments that are named here.
#[derive(Clone, Copy)]
enum Args {
    /// Anything.
    Any,
    /// Argument 0 to 5 has none of these bits.
    Without(u8, u32),
    /// Argument 0 to 5 has one of these values.
    OneOf(u8, &'static [u32]),
    /// A map: executable in the code cache only.
    Map,
    /// A protection: executable in the code cache only, whose pages are opened to be changed.
    Protect,
}
use Args::{Any, Map, OneOf, Protect, Without};

/// The flags that fork(3) passes to clone(2): a plain copy of the process, no thread, no namespace.
const FORK: u32 = (libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID | libc::SIGCHLD) as u32;
const EXEC: u32 = libc::PROT_EXEC as u32;
const FCNTL: &[u32] = &[
    libc::F_GETFD as u32,
    libc::F_SETFD as u32,
    libc::F_GETFL as u32,
    libc::F_DUPFD_CLOEXEC as u32,
    libc::F_SETLKW as u32,
];

/// The calls that a replay may make, the frequent ones first. The code cache exists already, so no
/// other memory becomes executable.
const ALLOWED: &[(c_long, Args)] = &[
    (libc::SYS_pread64, Any),
    (libc::SYS_write, Any),
    (libc::SYS_mprotect, Protect),
    (libc::SYS_rt_sigreturn, Any),
    (libc::SYS_futex, Any),
    // Guest memory, and the host's own.
    (libc::SYS_mmap, Map),
    (libc::SYS_munmap, Any),
    (libc::SYS_mremap, Any),
    (libc::SYS_madvise, Any),
    (libc::SYS_mincore, Any),
    (
        libc::SYS_ioctl,
        OneOf(1, &[crate::memory::page_list::PAGEMAP_SCAN as u32]),
    ),
    (libc::SYS_brk, Any),
    // The trace's files, which come by messages, and memory that stands for files mapped shared.
    (libc::SYS_recvmsg, Any),
    (libc::SYS_fstat, Any),
    (libc::SYS_lseek, Any),
    (libc::SYS_close, Any),
    (libc::SYS_fcntl, OneOf(1, FCNTL)),
    (libc::SYS_memfd_create, Any),
    (libc::SYS_pwrite64, Any),
    (libc::SYS_ftruncate, Any),
    (libc::SYS_fallocate, Any),
    // Recorded processes, each a fork of this one; the making of it is beside this list.
    (libc::SYS_wait4, Any),
    (libc::SYS_set_robust_list, Any),
    (libc::SYS_getpid, Any),
    (libc::SYS_gettid, Any),
    (libc::SYS_exit, Any),
    (libc::SYS_exit_group, Any),
    // Faults of the guest, and dying of a signal as the recorded program did.
    (libc::SYS_rt_sigaction, Any),
    (libc::SYS_rt_sigprocmask, Any),
    (libc::SYS_sigaltstack, Any),
    (libc::SYS_prlimit64, OneOf(0, &[0])),
    // Waiting for another process of the replay; calls that the runtime makes by itself.
    (libc::SYS_clock_nanosleep, Any),
    (libc::SYS_clock_gettime, Any),
    (libc::SYS_restart_syscall, Any),
    (libc::SYS_sched_yield, Any),
    (libc::SYS_getrandom, Any),
];

/// The flags that pthread_create(3) passes to clone(2): a thread of this process.
const NEW_THREAD: u32 = (libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM
    | libc::CLONE_SETTLS
    | libc::CLONE_PARENT_SETTID
    | libc::CLONE_CHILD_CLEARTID) as u32;

/// The further calls of a replay whose threads are threads of the host: it makes them, and they register with the
/// kernel.
const THREADS: &[(c_long, Args)] = &[(libc::SYS_rseq, Any), (libc::SYS_set_tid_address, Any)];

/// What a replay does that not every one does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayRights {
    /// Nothing.
    Plain,
    /// It is guided from outside.
    Guided,
    /// It makes threads, and no processes.
    Threads,
}

/// The further calls of a replay that is guided from outside, for a timeline: it may look whether
/// there is a command on the one socket that it was started with. With commands come the sockets of
/// its snapshots. No other socket can be made.
const GUIDED: &[(c_long, Args)] = &[(libc::SYS_recvfrom, Any)];

/// linux/audit.h: EM_X86_64, 64 bits, little endian.
const ARCH_X86_64: u32 = 0xc000_003e;
const KILL: u32 = libc::SECCOMP_RET_KILL_PROCESS;
const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
/// Refuses with EPERM.
const EPERM: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;

/// Refuses with ENOSYS.
const ENOSYS: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

/// Confines the calling process, which has one thread, for the rest of its life; `rights` names what it may do
/// beside replaying.
///
/// # Errors
/// The kernel does not take the filter: then nothing may be replayed.
pub fn enter(rights: ReplayRights) -> Result<()> {
    let no = |e: std::io::Error| {
        Failure::setup(format!(
            "cannot confine the replay: {e}; it needs a kernel with seccomp filters"
        ))
    };
    rustix::thread::set_no_new_privs(true).map_err(|e| no(e.into()))?;
    landlock::enter().map_err(no)?;
    set_filter(&mut filter(std::process::id(), rights)).map_err(no)?;
    crate::confined::begins();
    Ok(())
}

fn set_filter(program: &mut [sock_filter]) -> std::io::Result<()> {
    let description = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // Speculation is left as it is: the kernel's defence costs much, and there is no secret
    // in this process that is not its program's own.
    let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    // SAFETY: the description and the program that it points to outlive the call, which changes
    // the calls that this process may make and nothing in its memory.
    let refused = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const description,
        )
    };
    match refused {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// The failure where a process of the replay was killed by a signal.
pub fn killed(signal: i32) -> Failure {
    match signal {
        libc::SIGSYS => Failure::internal(
            "the replay tried a system call that it must not make (a trace from a stranger may have \
             made it do so)",
        ),
        _ => Failure::setup("a process of the replay is gone before its end; was it killed?"),
    }
}

/// The filter for a process with this pid and the children that it will fork.
fn filter(pid: u32, rights: ReplayRights) -> Vec<sock_filter> {
    let mut program = vec![
        load(offset_of!(seccomp_data, arch)),
        jump(libc::BPF_JEQ, ARCH_X86_64, 1, 0),
        ret(KILL),
        load(offset_of!(seccomp_data, nr)),
    ];
    let (further, made) = match rights {
        ReplayRights::Plain => (&[][..], FORK),
        ReplayRights::Guided => (GUIDED, FORK),
        ReplayRights::Threads => (THREADS, NEW_THREAD),
    };
    for &(nr, args) in ALLOWED.iter().chain(further) {
        rule(&mut program, nr, &check(args));
    }
    rule(&mut program, libc::SYS_clone, &equal(0, &[made], KILL));
    if rights == ReplayRights::Threads {
        // Its flags lie in memory, where no filter sees them. The C library goes on with clone(2), as on a kernel
        // without this call.
        rule(&mut program, libc::SYS_clone3, &[ret(ENOSYS)]);
        // To call a thread out of translated code.
        let own = equal(0, &[pid], EPERM);
        rule(&mut program, libc::SYS_rt_tgsigqueueinfo, &own);
    }
    // Only to itself: to die of a signal. A child cannot, and ends with a status instead, which
    // is not looked at.
    let own = equal(0, &[pid], EPERM);
    rule(&mut program, libc::SYS_tgkill, &own);
    program.push(ret(KILL));
    program
}

/// Appends: if the call is this one, do `body`, which ends with an answer.
fn rule(program: &mut Vec<sock_filter>, nr: c_long, body: &[sock_filter]) {
    program.push(jump(libc::BPF_JEQ, nr as u32, 0, body.len() as u8));
    program.extend_from_slice(body);
}

/// The instructions that check these arguments.
fn check(args: Args) -> Vec<sock_filter> {
    match args {
        Any => vec![ret(ALLOW)],
        Without(n, bits) => vec![
            argument(n),
            jump(libc::BPF_JSET, bits, 1, 0),
            ret(ALLOW),
            ret(KILL),
        ],
        OneOf(n, values) => equal(n, values, KILL),
        Map => in_cache(&[(argument(3), libc::BPF_JSET, libc::MAP_FIXED as u32)]),
        Protect => in_cache(&[]),
    }
}

/// Allows maps that are not executable (argument 2), and executable ones if they lie in the code
/// cache (arguments 0 and 1) and besides pass these tests.
fn in_cache(besides: &[(sock_filter, u32, u32)]) -> Vec<sock_filter> {
    const START: u32 = CACHE_START as u32;
    const END: u32 = CACHE_END as u32;
    let mut body = check(Without(2, EXEC));
    body.pop();
    let low = [
        (high_argument(0), libc::BPF_JEQ, 0),
        (high_argument(1), libc::BPF_JEQ, 0),
        (argument(0), libc::BPF_JGE, START),
    ];
    for &(what, test, than) in besides.iter().chain(&low) {
        body.extend([what, jump(test, than, 1, 0), ret(KILL)]);
    }
    // Neither may be so large that their sum overflows.
    for (what, most) in [(argument(1), END - START), (argument(0), END)] {
        body.extend([what, jump(libc::BPF_JGT, most, 0, 1), ret(KILL)]);
    }
    let to_x = instruction(libc::BPF_MISC | libc::BPF_TAX, 0, 0, 0);
    let add_x = instruction(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X, 0, 0, 0);
    body.extend([to_x, argument(1), add_x]);
    body.extend([jump(libc::BPF_JGT, END, 0, 1), ret(KILL), ret(ALLOW)]);
    body
}

/// Allows if the argument has one of these values.
fn equal(n: u8, values: &[u32], otherwise: u32) -> Vec<sock_filter> {
    let mut body = vec![argument(n)];
    for &value in values {
        body.extend([jump(libc::BPF_JEQ, value, 0, 1), ret(ALLOW)]);
    }
    body.push(ret(otherwise));
    body
}

/// Loads the low half of an argument (little endian: the first).
fn argument(n: u8) -> sock_filter {
    load(offset_of!(seccomp_data, args) + 8 * usize::from(n))
}

/// Loads the high half of an argument.
fn high_argument(n: u8) -> sock_filter {
    load(offset_of!(seccomp_data, args) + 8 * usize::from(n) + 4)
}

/// Loads 32 bits of the description of the call.
fn load(at: usize) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, at as u32, 0, 0)
}

/// Compares the loaded value, and skips `yes` or `no` instructions.
fn jump(how: u32, value: u32, yes: u8, no: u8) -> sock_filter {
    instruction(libc::BPF_JMP | how | libc::BPF_K, value, yes, no)
}

fn ret(answer: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, answer, 0, 0)
}

fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    }
}

mod landlock;

#[cfg(test)]
mod tests;
