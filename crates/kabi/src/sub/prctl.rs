//! prctl(2): operations on the calling thread or process, by the names of `<linux/prctl.h>`.
//! The argument described here is the second of the call; no operation writes through another.

use super::request::{Sub, sort};
use crate::dsl::*;
use crate::structs::{COMM, INT};

pub(super) static SORTED: [Sub; ROWS.len()] = sort(&[(0, ROWS)]);

subs! {
    1 PR_SET_PDEATHSIG(Int);
    2 PR_GET_PDEATHSIG(output_of(INT));
    3 PR_GET_DUMPABLE(Unused);
    4 PR_SET_DUMPABLE(Int) => hook("the supervisor must still reach the host process");
    7 PR_GET_KEEPCAPS(Unused);
    8 PR_SET_KEEPCAPS(Int);
    13 PR_GET_TIMING(Unused);
    14 PR_SET_TIMING(Int);
    15 PR_SET_NAME(input_of(COMM));
    16 PR_GET_NAME(output_of(COMM));
    21 PR_GET_SECCOMP(Unused) => hook("goes with PR_SET_SECCOMP");
    22 PR_SET_SECCOMP(Int) => hook("the engine runs the filters before each call");
    23 PR_CAPBSET_READ(Int);
    24 PR_CAPBSET_DROP(Int);
    25 PR_GET_TSC(output_of(INT));
    26 PR_SET_TSC(Int) => hook("the host reads the counter all the same");
    27 PR_GET_SECUREBITS(Unused);
    28 PR_SET_SECUREBITS(Int);
    29 PR_SET_TIMERSLACK(Int);
    30 PR_GET_TIMERSLACK(Unused);
    31 PR_TASK_PERF_EVENTS_DISABLE(Unused);
    32 PR_TASK_PERF_EVENTS_ENABLE(Unused);
    33 PR_MCE_KILL(Int);
    34 PR_MCE_KILL_GET(Unused);
    35 PR_SET_MM(Int) => hook("EPERM: the host's own memory map");
    36 PR_SET_CHILD_SUBREAPER(Int);
    37 PR_GET_CHILD_SUBREAPER(output_of(INT));
    38 PR_SET_NO_NEW_PRIVS(Int);
    39 PR_GET_NO_NEW_PRIVS(Unused);
    40 PR_GET_TID_ADDRESS(output_of(8)) => hook("goes with set_tid_address");
    41 PR_SET_THP_DISABLE(Int);
    42 PR_GET_THP_DISABLE(Unused);
    47 PR_CAP_AMBIENT(Int);
    52 PR_GET_SPECULATION_CTRL(Int);
    53 PR_SET_SPECULATION_CTRL(Int);
    57 PR_SET_IO_FLUSHER(Int);
    58 PR_GET_IO_FLUSHER(Unused);
    59 PR_SET_SYSCALL_USER_DISPATCH(Int) => errno(EINVAL, "would catch the host's own calls");
    62 PR_SCHED_CORE(Int) => errno(EINVAL, "not supported");
    65 PR_SET_MDWE(Int) => errno(EINVAL, "would forbid the code cache");
    66 PR_GET_MDWE(Unused) => errno(EINVAL, "goes with PR_SET_MDWE");
    67 PR_SET_MEMORY_MERGE(Int);
    68 PR_GET_MEMORY_MERGE(Unused);
    0x41555856 PR_GET_AUXV(Int) => errno(EINVAL, "would show the host's own vector");
    0x53564d41 PR_SET_VMA(Int);
    0x59616d61 PR_SET_PTRACER(Int);
}
