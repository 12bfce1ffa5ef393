//! The calls that set filters: seccomp(2), and prctl(2) with `PR_SET_SECCOMP`.

use relive_host::{GuestAddr, copy};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, no_new_privs};

use super::operation::{Operation, Outcome, Prepared};
use crate::call::Call;
use crate::failure::Result;
use crate::seccomp::bpf;
use crate::seccomp::filter::{
    ALLOW, Confined, ERRNO, FilterProgram, Filters, KILL_PROCESS, KILL_THREAD, LOG, TRACE, TRAP,
};
use crate::task::Task;

const SET_MODE_STRICT: i32 = 0;
const SET_MODE_FILTER: i32 = 1;
const GET_ACTION_AVAIL: i32 = 2;

const FLAG_TSYNC: u64 = 1;
const FLAG_LOG: u64 = 2;
const FLAG_SPEC_ALLOW: u64 = 4;
const FLAG_TSYNC_ESRCH: u64 = 16;

/// `struct sock_fprog`
const FPROG: usize = 16;
/// The most instructions of all filters of a thread, each with four more (the kernel's
/// MAX_INSNS_PER_PATH).
const MOST_IN_ALL: usize = 32768;

/// The modes of prctl(2).
const MODE_STRICT: u64 = 1;
const MODE_FILTER: u64 = 2;

/// A result, or an errno.
type Checked<T> = std::result::Result<T, i32>;

fn result(checked: Checked<i64>) -> i64 {
    checked.unwrap_or_else(|errno| -i64::from(errno))
}

/// The confinement that a thread asks for.
pub enum Confinement {
    /// read, write, exit and rt_sigreturn.
    Strict,
    /// The calls that a filter lets through.
    Filter {
        /// `SECCOMP_FILTER_FLAG_*`.
        flags: u64,
        /// The program, or the errno if it cannot be read or is invalid.
        program: Checked<Vec<bpf::Insn>>,
    },
}

impl Confinement {
    /// The filter at `at`.
    fn filter(flags: u64, at: u64) -> Checked<Self> {
        if flags & !(FLAG_TSYNC | FLAG_LOG | FLAG_SPEC_ALLOW | FLAG_TSYNC_ESRCH) != 0 {
            return Err(libc::EINVAL);
        }
        let header: [u8; FPROG] = copy::read_array(GuestAddr(at)).map_err(|_| libc::EFAULT)?;
        let len = usize::from(u16::from_le_bytes([header[0], header[1]]));
        if len == 0 || len > bpf::MOST {
            return Err(libc::EINVAL);
        }
        let pointer = u64::from_le_bytes(header[8..].try_into().unwrap_or_default());
        let program = read_program(pointer, len);
        Ok(Self::Filter { flags, program })
    }
}

fn read_program(at: u64, len: usize) -> Checked<Vec<bpf::Insn>> {
    let mut bytes = vec![0; len * bpf::INSN];
    copy::read(GuestAddr(at), &mut bytes).map_err(|_| libc::EFAULT)?;
    let insns = bytes.as_chunks::<{ bpf::INSN }>().0;
    let program: Vec<bpf::Insn> = insns.iter().map(bpf::Insn::decode).collect();
    match bpf::check(&program) {
        true => Ok(program),
        false => Err(libc::EINVAL),
    }
}

/// seccomp(2).
pub struct Seccomp;

impl Operation for Seccomp {
    type Plan = Confinement;

    fn prepare(_: &mut Task, call: &Call) -> Prepared<Confinement> {
        let (flags, at) = (call.args[1] & 0xffff_ffff, call.args[2]);
        let wanted = match call.int(0) {
            SET_MODE_STRICT if flags == 0 && at == 0 => Ok(Confinement::Strict),
            SET_MODE_FILTER => Confinement::filter(flags, at),
            GET_ACTION_AVAIL if flags == 0 => return Err(result(available(at))),
            _ => Err(libc::EINVAL),
        };
        wanted.map_err(|errno| -i64::from(errno))
    }

    fn perform(_: &mut Task, _: &Call, wanted: &mut Confinement) -> Result<i64> {
        Ok(ask(wanted))
    }

    fn apply(task: &mut Task, _: &Call, wanted: Confinement, outcome: &Outcome<'_>) -> Result<i64> {
        Ok(result(confine(task, wanted, outcome)))
    }
}

/// prctl(2), `PR_SET_SECCOMP`: as [`Seccomp`].
pub struct SetMode;

impl Operation for SetMode {
    type Plan = Confinement;

    fn prepare(_: &mut Task, call: &Call) -> Prepared<Confinement> {
        let wanted = match call.args[1] {
            MODE_STRICT => Ok(Confinement::Strict),
            MODE_FILTER => Confinement::filter(0, call.args[2]),
            _ => Err(libc::EINVAL),
        };
        wanted.map_err(|errno| -i64::from(errno))
    }

    fn perform(task: &mut Task, call: &Call, wanted: &mut Confinement) -> Result<i64> {
        Seccomp::perform(task, call, wanted)
    }

    fn apply(
        task: &mut Task,
        call: &Call,
        wanted: Confinement,
        outcome: &Outcome<'_>,
    ) -> Result<i64> {
        Seccomp::apply(task, call, wanted, outcome)
    }
}

/// prctl(2), `PR_GET_SECCOMP`.
#[must_use]
pub fn get_mode(task: &Task) -> i64 {
    match &task.seccomp {
        None => 0,
        Some(Confined::Strict) => MODE_STRICT as i64,
        Some(Confined::Filter(_)) => MODE_FILTER as i64,
    }
}

fn available(at: u64) -> Checked<i64> {
    let action: [u8; 4] = copy::read_array(GuestAddr(at)).map_err(|_| libc::EFAULT)?;
    let known = [KILL_PROCESS, KILL_THREAD, TRAP, ERRNO, TRACE, LOG, ALLOW];
    match known.contains(&u32::from_le_bytes(action)) {
        true => Ok(0),
        false => Err(libc::EOPNOTSUPP),
    }
}

/// The part of the outcome that depends on the caller's rights, which only the kernel knows; all other
/// errors follow from the program.
fn ask(wanted: &Confinement) -> i64 {
    match wanted {
        Confinement::Filter { .. } if !may_filter() => -i64::from(libc::EACCES),
        _ => 0,
    }
}

/// Confines the thread, if the outcome lets it.
fn confine(task: &mut Task, wanted: Confinement, outcome: &Outcome<'_>) -> Checked<i64> {
    match wanted {
        Confinement::Strict if matches!(task.seccomp, Some(Confined::Filter(_))) => {
            Err(libc::EINVAL)
        }
        Confinement::Strict => {
            task.seccomp = Some(Confined::Strict);
            Ok(0)
        }
        // The kernel looks at the caller's rights before it looks at the program.
        Confinement::Filter { .. } if outcome.result == -i64::from(libc::EACCES) => {
            Err(libc::EACCES)
        }
        Confinement::Filter { flags, program } => add(task, flags, program?),
    }
}

/// Adds a filter to those of the thread; with `FLAG_TSYNC`, of all threads.
fn add(task: &mut Task, flags: u64, insns: Vec<bpf::Insn>) -> Checked<i64> {
    let older = match &task.seccomp {
        None => None,
        Some(Confined::Strict) => return Err(libc::EINVAL),
        Some(Confined::Filter(filters)) => Some(filters.clone()),
    };
    let before = older.iter().flat_map(Filters::iter);
    let all: usize = before.map(|f| f.program.insns.len() + 4).sum();
    if all + insns.len() > MOST_IN_ALL {
        return Err(libc::ENOMEM);
    }
    let setter = (task.process.index, task.index);
    let new = Filters::with(FilterProgram { setter, insns }, older);
    task.seccomp = Some(Confined::Filter(new.clone()));
    if flags & FLAG_TSYNC != 0 {
        task.process.set_filter(new);
    }
    Ok(0)
}

/// Whether the thread may confine itself: it will gain no rights by exec, or has them all.
fn may_filter() -> bool {
    let has_all = |sets: CapabilitySets| sets.effective.contains(CapabilitySet::SYS_ADMIN);
    no_new_privs() == Ok(true) || capabilities(None).is_ok_and(has_all)
}
