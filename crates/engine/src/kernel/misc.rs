//! Small hooks: arch_prctl(2), by its request, and personality(2).

use super::operation::Handling::Computes;
use super::operation::{Handling, RecordedResult, Requests};
use crate::call::Call;
use crate::call::reply::Reply;
use crate::failure::{CallResult, Result};
use crate::forbidden::Forbidden;
use crate::task::Task;

const ARCH_SET_GS: i32 = 0x1001;
const ARCH_SET_FS: i32 = 0x1002;
const ARCH_GET_FS: i32 = 0x1003;
const ARCH_GET_GS: i32 = 0x1004;
const ARCH_GET_CPUID: i32 = 0x1011;
const ARCH_SET_CPUID: i32 = 0x1012;

/// arch_prctl(2): the guest's bases, and whether it may use `cpuid`. The processor's own GS base is the
/// host's.
pub static ARCH_PRCTL: Requests = Requests {
    listed: ARCH,
    others: Computes(unknown),
};

const ARCH: &[(i32, Handling)] = &[
    (ARCH_SET_FS, Computes(set_fs)),
    (ARCH_SET_GS, Computes(set_gs)),
    (ARCH_GET_FS, Computes(fs)),
    (ARCH_GET_GS, Computes(gs)),
    (ARCH_GET_CPUID, Computes(cpuid)),
    (ARCH_SET_CPUID, Computes(set_cpuid)),
];

fn unknown(_: &mut Task, _: &Call, _: RecordedResult) -> Result<Reply> {
    Ok(Reply::Value(-i64::from(libc::EINVAL)))
}

/// The base that is asked for, if a guest may have it.
fn base(call: &Call) -> CallResult<u64> {
    match call.args[1] {
        relive_host::layout::FS_END.. => Err(libc::EPERM.into()),
        base => Ok(base),
    }
}

fn set_fs(task: &mut Task, call: &Call, _: RecordedResult) -> Result<Reply> {
    Reply::done(base(call).map(|base| task.ctx.guest_fs = base))
}

fn set_gs(task: &mut Task, call: &Call, _: RecordedResult) -> Result<Reply> {
    Reply::done(base(call).map(|base| task.ctx.guest_gs = base))
}

fn fs(task: &mut Task, call: &Call, _: RecordedResult) -> Result<Reply> {
    let base = task.ctx.guest_fs;
    Reply::done(task.give(call.args[1], &base.to_le_bytes()))
}

fn gs(task: &mut Task, call: &Call, _: RecordedResult) -> Result<Reply> {
    let base = task.ctx.guest_gs;
    Reply::done(task.give(call.args[1], &base.to_le_bytes()))
}

fn cpuid(task: &mut Task, call: &Call, told: RecordedResult) -> Result<Reply> {
    if was_refused(told) {
        return unknown(task, call, told);
    }
    Ok(Reply::Value(i64::from(!task.forbidden.cpuid)))
}

fn set_cpuid(task: &mut Task, call: &Call, told: RecordedResult) -> Result<Reply> {
    if was_refused(told) {
        return unknown(task, call, told);
    }
    task.forbid(Forbidden {
        cpuid: call.args[1] == 0,
        ..task.forbidden
    });
    Ok(Reply::Value(0))
}

/// Whether the recording says that a call failed, as older versions did.
fn was_refused(told: RecordedResult) -> bool {
    told.is_some_and(|result| result < 0)
}

/// personality(2): reported as set, without touching the host's layout.
pub fn personality(task: &mut Task, call: &Call, _: RecordedResult) -> Result<Reply> {
    let mut state = task.process.state();
    let old = state.personality;
    if call.args[0] as u32 != u32::MAX {
        state.personality = call.args[0] & 0xffff_ffff;
    }
    Ok(Reply::Value(old as i64))
}
