//! Clocks, sleeping and timers.

use crate::dsl::*;

rows! {
    35 nanosleep(input_of(structs::TIMESPEC), on_failure(output_of(structs::TIMESPEC)))
        => blocks(Timed);
    36 getitimer(Int, output_of(structs::ITIMERVAL));
    37 alarm(Uint);
    38 setitimer(Int, input_of(structs::ITIMERVAL), output_of(structs::ITIMERVAL));
    96 gettimeofday(output_of(structs::TIMEVAL), output_of(structs::TIMEZONE));
    100 times(output_of(structs::TMS));
    159 adjtimex(inout_of(structs::TIMEX));
    164 settimeofday(input_of(structs::TIMEVAL), input_of(structs::TIMEZONE));
    201 time(output_of(structs::LONG));
    222 timer_create(Int, input_of(structs::SIGEVENT), always(output_of(structs::INT)));
    223 timer_settime(Int, Flags, input_of(structs::ITIMERSPEC), output_of(structs::ITIMERSPEC));
    224 timer_gettime(Int, output_of(structs::ITIMERSPEC));
    225 timer_getoverrun(Int);
    226 timer_delete(Int);
    227 clock_settime(Int, input_of(structs::TIMESPEC));
    228 clock_gettime(Int, output_of(structs::TIMESPEC));
    229 clock_getres(Int, output_of(structs::TIMESPEC));
    230 clock_nanosleep(Int, Flags, input_of(structs::TIMESPEC),
        on_failure(output_of(structs::TIMESPEC))) => blocks(Timed);
    283 timerfd_create(Int, Flags) => fds(Creates);
    286 timerfd_settime(Fd, Flags, input_of(structs::ITIMERSPEC), output_of(structs::ITIMERSPEC));
    287 timerfd_gettime(Fd, output_of(structs::ITIMERSPEC));
    305 clock_adjtime(Int, inout_of(structs::TIMEX));
}
