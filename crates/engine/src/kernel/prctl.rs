//! prctl(2) by its operation: most are the kernel's. The host must stay traceable by its supervisor,
//! whatever the guest sets.

use super::generic::as_described;
use super::operation::Handling::{Computes, Follows};
use super::operation::{Handling, Operation, Outcome, Prepared, RecordedResult, Requests, follow};
use super::refuse::refuse;
use super::rights;
use crate::call::Call;
use crate::call::reply::Reply;
use crate::failure::{CallError, Result};
use crate::forbidden::Forbidden;
use crate::kernel::seccomp::{SetMode, get_mode};
use crate::task::Task;

const EINVAL: i64 = -(libc::EINVAL as i64);

/// How the engine takes part in each operation.
pub static REQUESTS: Requests = Requests {
    listed: LISTED,
    others: Follows(as_described),
};

const LISTED: &[(i32, Handling)] = &[
    (libc::PR_SET_DUMPABLE, Computes(set_dumpable)),
    (libc::PR_GET_DUMPABLE, Follows(follow::<Dumpable>)),
    (libc::PR_SET_TSC, Computes(set_counter)),
    (libc::PR_GET_TSC, Computes(counter)),
    (libc::PR_SET_MM, Follows(follow::<SetMap>)),
    (libc::PR_GET_SECCOMP, Computes(confinement)),
    (libc::PR_SET_SECCOMP, Follows(follow::<SetMode>)),
    (libc::PR_SET_PDEATHSIG, Follows(follow::<SetDeathSignal>)),
    (libc::PR_GET_PDEATHSIG, Computes(death_signal)),
    (libc::PR_CAPBSET_DROP, Follows(follow::<rights::Rights>)),
    (libc::PR_SET_SECUREBITS, Follows(follow::<rights::Rights>)),
    (libc::PR_SET_NAME, Follows(follow::<SetName>)),
    (libc::PR_GET_TID_ADDRESS, Computes(tid_address)),
];

/// Writes `bytes` to the address in the second argument.
fn tell(task: &mut Task, call: &Call, bytes: &[u8]) -> Result<Reply> {
    Reply::done(task.give(call.args[1], bytes))
}

fn set_dumpable(task: &mut Task, call: &Call, _: RecordedResult) -> Result<Reply> {
    Ok(Reply::Value(match call.args[1] {
        wanted @ 0..=1 => {
            task.process.state().dumpable = wanted as i64;
            0
        }
        _ => EINVAL,
    }))
}

/// `PR_GET_DUMPABLE`: changes of the credentials reset it too (credentials(7)), which the engine knows
/// only where calls are made.
struct Dumpable;

impl Operation for Dumpable {
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn perform(task: &mut Task, _: &Call, (): &mut ()) -> Result<i64> {
        Ok(task.process.state().dumpable)
    }
}

fn set_counter(task: &mut Task, call: &Call, told: RecordedResult) -> Result<Reply> {
    let counter = match call.int(1) {
        // As older versions did.
        _ if told.is_some_and(|result| result < 0) => return Ok(Reply::Value(EINVAL)),
        libc::PR_TSC_ENABLE => false,
        libc::PR_TSC_SIGSEGV => true,
        _ => return Ok(Reply::Value(EINVAL)),
    };
    task.forbid(Forbidden {
        counter,
        ..task.forbidden
    });
    Ok(Reply::Value(0))
}

fn counter(task: &mut Task, call: &Call, _: RecordedResult) -> Result<Reply> {
    let mode = match task.forbidden.counter {
        true => libc::PR_TSC_SIGSEGV,
        false => libc::PR_TSC_ENABLE,
    };
    tell(task, call, &mode.to_le_bytes())
}

/// `PR_SET_MM`: the kernel's record of the memory map is the host's. Changes are refused, as they are
/// without the capability for them.
struct SetMap;

impl Operation for SetMap {
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn perform(task: &mut Task, call: &Call, (): &mut ()) -> Result<i64> {
        set_map(task, call)
    }
}

fn set_map(task: &mut Task, call: &Call) -> Result<i64> {
    // <linux/prctl.h>: `struct prctl_mm_map`.
    const MAP_BYTES: u32 = 104;
    let [_, what, at, size, last, _] = call.args;
    let sized = [
        libc::PR_SET_MM_AUXV,
        libc::PR_SET_MM_MAP,
        libc::PR_SET_MM_MAP_SIZE,
    ];
    let has_size = sized.contains(&(what as i32));
    match what as i32 {
        _ if last != 0 || size != 0 && !has_size => Ok(EINVAL),
        libc::PR_SET_MM_MAP_SIZE => task
            .give(at, &MAP_BYTES.to_le_bytes())
            .map_or_else(CallError::result, |()| Ok(0)),
        libc::PR_SET_MM_MAP if size != u64::from(MAP_BYTES) => Ok(EINVAL),
        _ => Ok(refuse(call, libc::EPERM)),
    }
}

fn confinement(task: &mut Task, _: &Call, _: RecordedResult) -> Result<Reply> {
    Ok(Reply::Value(get_mode(task)))
}

/// `PR_SET_PDEATHSIG`.
struct SetDeathSignal;

impl Operation for SetDeathSignal {
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn apply(task: &mut Task, call: &Call, (): (), outcome: &Outcome<'_>) -> Result<i64> {
        if outcome.result == 0 {
            task.process.state().death_signal = call.int(1);
        }
        Ok(outcome.result)
    }
}

fn death_signal(task: &mut Task, call: &Call, _: RecordedResult) -> Result<Reply> {
    let signal = task.process.state().death_signal;
    tell(task, call, &signal.to_le_bytes())
}

/// `PR_SET_NAME`.
struct SetName;

impl Operation for SetName {
    /// The name, if it can be read and ends.
    type Plan = Option<Vec<u8>>;

    fn prepare(_: &mut Task, call: &Call) -> Prepared<Option<Vec<u8>>> {
        let mut name = Vec::new();
        let at = relive_host::GuestAddr(call.args[1]);
        let is_read = relive_host::copy::read_cstr(at, 16, &mut name).is_ok();
        Ok(is_read.then_some(name))
    }

    fn apply(
        task: &mut Task,
        _: &Call,
        name: Option<Vec<u8>>,
        outcome: &Outcome<'_>,
    ) -> Result<i64> {
        if let Some(name) = name
            && outcome.result == 0
        {
            task.set_name(&name);
        }
        Ok(outcome.result)
    }
}

fn tid_address(task: &mut Task, call: &Call, _: RecordedResult) -> Result<Reply> {
    let at = task.clear_tid;
    tell(task, call, &at.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use relive_kabi::{Replay, SubTable};

    use super::*;

    fn is_listed(key: u64) -> bool {
        LISTED.iter().any(|(op, _)| u64::from(*op as u32) == key)
    }

    #[test]
    fn every_operation_that_needs_a_hook_has_one() {
        for sub in SubTable::Prctl.rows() {
            let needs = matches!(sub.replay, Replay::Hook | Replay::Redo);
            assert!(!needs || is_listed(sub.key), "{} has no hook", sub.name);
        }
    }

    #[test]
    fn what_has_a_hook_is_an_operation_that_is_let_through_once() {
        for (op, _) in LISTED {
            let sub = relive_kabi::prctl(*op as u32).expect("a row for each");
            assert_eq!(sub.replay.refused(), None, "{}", sub.name);
            let same = LISTED.iter().filter(|(other, _)| other == op);
            assert_eq!(same.count(), 1, "{}", sub.name);
        }
    }
}
