//! Small hooks: segment bases, limits, process options.

use super::live::generic;
use super::operation::follow;
use super::{Answer, Call, Reply, refuse};
use crate::failure::Result;
use crate::forbidden::Forbidden;
use crate::task::Task;

const ARCH_SET_GS: i32 = 0x1001;
const ARCH_SET_FS: i32 = 0x1002;
const ARCH_GET_FS: i32 = 0x1003;
const ARCH_GET_GS: i32 = 0x1004;
const ARCH_GET_CPUID: i32 = 0x1011;
const ARCH_SET_CPUID: i32 = 0x1012;

/// arch_prctl(2): the bases of the guest, and whether it may use `cpuid`; the GS base that the
/// processor has is the host's.
pub fn arch_prctl(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    let result = match call.int(0) {
        // As older versions did.
        ARCH_GET_CPUID | ARCH_SET_CPUID if was_refused(answer) => -i64::from(libc::EINVAL),
        ARCH_SET_FS | ARCH_SET_GS if call.args[1] >= relive_host::layout::FS_END => {
            -i64::from(libc::EPERM)
        }
        ARCH_SET_FS => {
            task.ctx.guest_fs = call.args[1];
            0
        }
        op @ (ARCH_GET_FS | ARCH_GET_GS) => {
            let value = if op == ARCH_GET_FS {
                task.ctx.guest_fs
            } else {
                task.ctx.guest_gs
            };
            match task.write(call.args[1], &value.to_le_bytes()) {
                Ok(()) => {
                    task.log.wrote(call.args[1], 8);
                    0
                }
                Err(e) => e,
            }
        }
        ARCH_SET_GS => {
            task.ctx.guest_gs = call.args[1];
            0
        }
        ARCH_GET_CPUID => i64::from(!task.forbidden.cpuid),
        ARCH_SET_CPUID => {
            task.forbid(Forbidden {
                cpuid: call.args[1] == 0,
                ..task.forbidden
            });
            0
        }
        _ => -i64::from(libc::EINVAL),
    };
    Ok(Reply::Value(result))
}

/// Whether the recording says that a call failed.
fn was_refused(answer: Option<&Answer>) -> bool {
    answer.is_some_and(|a| a.result < 0)
}

/// personality(2): reported as set, without touching the host's layout.
pub fn personality(task: &mut Task, call: &Call, _: Option<&Answer>) -> Result<Reply> {
    let mut state = task.process.state();
    let old = state.personality;
    if call.args[0] as u32 != u32::MAX {
        state.personality = call.args[0] & 0xffff_ffff;
    }
    Ok(Reply::Value(old as i64))
}

/// prctl(2), `PR_SET_MM`: what the kernel keeps of the memory map is the host's, and nobody may change
/// it, as without the capability for it.
fn set_mm(task: &mut Task, call: &Call) -> i64 {
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
        _ if last != 0 || size != 0 && !has_size => -i64::from(libc::EINVAL),
        libc::PR_SET_MM_MAP_SIZE => match task.write(at, &MAP_BYTES.to_le_bytes()) {
            Ok(()) => {
                task.log.wrote(at, 4);
                0
            }
            Err(e) => e,
        },
        libc::PR_SET_MM_MAP if size != u64::from(MAP_BYTES) => -i64::from(libc::EINVAL),
        _ => refuse(call, libc::EPERM),
    }
}

/// prctl(2): most operations are the kernel's; the host must stay traceable by its
/// supervisor whatever the guest says.
pub fn prctl(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    match call.int(0) {
        libc::PR_SET_DUMPABLE if call.args[1] <= 1 => {
            task.process.state().dumpable = call.args[1] as i64;
            Ok(Reply::Value(0))
        }
        libc::PR_SET_DUMPABLE => Ok(Reply::Value(-i64::from(libc::EINVAL))),
        libc::PR_GET_DUMPABLE => Ok(Reply::Value(match answer {
            // Another user's calls have changed it (credentials(7)).
            Some(a) => a.result,
            None => task.process.state().dumpable,
        })),
        // As older versions did.
        libc::PR_SET_TSC if was_refused(answer) => Ok(Reply::Value(-i64::from(libc::EINVAL))),
        libc::PR_SET_TSC => Ok(Reply::Value(match call.int(1) {
            mode @ (libc::PR_TSC_ENABLE | libc::PR_TSC_SIGSEGV) => {
                task.forbid(Forbidden {
                    counter: mode == libc::PR_TSC_SIGSEGV,
                    ..task.forbidden
                });
                0
            }
            _ => -i64::from(libc::EINVAL),
        })),
        libc::PR_GET_TSC => {
            let mode = match task.forbidden.counter {
                true => libc::PR_TSC_SIGSEGV,
                false => libc::PR_TSC_ENABLE,
            };
            let written = task.write(call.args[1], &mode.to_le_bytes());
            task.log.wrote(call.args[1], 4);
            Ok(Reply::Value(written.map_or_else(|e| e, |()| 0)))
        }
        libc::PR_SET_MM => Ok(Reply::Value(match answer {
            Some(a) => a.result,
            None => set_mm(task, call),
        })),
        libc::PR_GET_SECCOMP => Ok(Reply::Value(crate::seccomp::get_mode(task))),
        libc::PR_SET_SECCOMP => crate::seccomp::set_mode(task, call, answer),
        libc::PR_SET_PDEATHSIG => {
            let result = answer.map_or_else(|| generic(task, call), |a| a.result);
            if result == 0 {
                task.process.state().death_signal = call.int(1);
            }
            Ok(Reply::Value(result))
        }
        libc::PR_CAPBSET_DROP | libc::PR_SET_SECUREBITS => {
            follow::<super::users::Rights>(task, call, answer)
        }
        libc::PR_SET_NAME => {
            let result = answer.map_or_else(|| generic(task, call), |a| a.result);
            let mut name = Vec::new();
            let at = relive_host::GuestAddr(call.args[1]);
            if result == 0 && relive_host::copy::read_cstr(at, 16, &mut name).is_ok() {
                task.set_name(&name);
            }
            Ok(Reply::Value(result))
        }
        libc::PR_GET_PDEATHSIG => {
            let signal = task.process.state().death_signal;
            let written = task.write(call.args[1], &signal.to_le_bytes());
            task.log.wrote(call.args[1], 4);
            Ok(Reply::Value(written.map_or_else(|e| e, |()| 0)))
        }
        libc::PR_GET_TID_ADDRESS => {
            let written = task.write(call.args[1], &task.clear_tid.to_le_bytes());
            task.log.wrote(call.args[1], 8);
            Ok(Reply::Value(written.map_or_else(|e| e, |()| 0)))
        }
        _ => Ok(Reply::Value(
            answer.map_or_else(|| generic(task, call), |a| a.result),
        )),
    }
}
