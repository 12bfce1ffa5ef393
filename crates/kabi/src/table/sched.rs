//! Scheduling classes, priorities and processors. Recorded for their answers; the real order of
//! guest threads is Relive's own.

use crate::arg::{Arg, Dir, Written};
use crate::dsl::*;

rows! {
    24 sched_yield();
    140 getpriority(Int, Int);
    141 setpriority(Int, Int, Int);
    142 sched_setparam(Pid, input_of(structs::SCHED_PARAM));
    143 sched_getparam(Pid, output_of(structs::SCHED_PARAM));
    144 sched_setscheduler(Pid, Int, input_of(structs::SCHED_PARAM));
    145 sched_getscheduler(Pid);
    146 sched_get_priority_max(Int);
    147 sched_get_priority_min(Int);
    148 sched_rr_get_interval(Pid, output_of(structs::TIMESPEC));
    203 sched_setaffinity(Pid, Uint, input(arg(1)));
    204 sched_getaffinity(Pid, Uint, output(arg(1), Ret));
    251 ioprio_set(Int, Int, Int);
    252 ioprio_get(Int, Int);
    309 getcpu(output_of(structs::INT), output_of(structs::INT), Unused);
    314 sched_setattr(Pid, SCHED_ATTR_IN, Flags)
        => note("a structure of the wrong size learns the size it should have");
    315 sched_getattr(Pid, output(arg(2), arg(2)), Uint, Flags);
}

/// Read on success; on E2BIG only its first word, the size, is written.
const SCHED_ATTR_IN: Arg = Arg::Buf {
    dir: Dir::InOut,
    cap: Fixed(structs::SCHED_ATTR),
    out: Fixed(structs::INT),
    when: Written::Failure,
};
