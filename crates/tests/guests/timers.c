// relive: output=free expect="ok\n"
// POSIX timers with values and overruns, alarm, virtual and profiling timers, timerfd.
#include "check.h"
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>

static volatile int fired, value;
static void on_timer(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    fired++;
    value = info->si_value.sival_int;
}

static void wait_for(int count) {
    struct timespec nap = {0, 200000};
    while (fired < count) nanosleep(&nap, NULL);
}

static void burn_until(int count) {
    volatile unsigned long work = 0;
    while (fired < count) work++;
}

int main(void) {
    handle(SIGRTMIN, on_timer, SA_RESTART);
    handle(SIGALRM, on_timer, SA_RESTART);
    handle(SIGVTALRM, on_timer, SA_RESTART);
    handle(SIGPROF, on_timer, SA_RESTART);
    struct sigevent event;
    memset(&event, 0, sizeof event);
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGRTMIN;
    event.sigev_value.sival_int = 4321;
    timer_t timer;
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    struct itimerspec spec = {{0, 500000}, {0, 500000}}, left;
    CHECK(timer_settime(timer, 0, &spec, NULL) == 0);
    wait_for(5);
    CHECK(value == 4321 && timer_gettime(timer, &left) == 0 && left.it_interval.tv_nsec == 500000);
    CHECK(timer_getoverrun(timer) >= 0 && timer_delete(timer) == 0);
    fired = 0;
    struct itimerval once = {{0, 0}, {0, 3000}};
    CHECK(setitimer(ITIMER_REAL, &once, NULL) == 0);
    wait_for(1);
    CHECK(alarm(100) == 0 && alarm(0) > 90);
    fired = 0;
    CHECK(setitimer(ITIMER_VIRTUAL, &once, NULL) == 0);
    burn_until(1);
    fired = 0;
    CHECK(setitimer(ITIMER_PROF, &once, NULL) == 0);
    burn_until(1);
    CHECK(getitimer(ITIMER_PROF, &once) == 0 && once.it_value.tv_sec == 0 && once.it_value.tv_usec == 0);
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    CHECK(fd >= 0 && timerfd_settime(fd, 0, &spec, NULL) == 0);
    uint64_t expirations = 0, total = 0;
    while (total < 3) {
        CHECK(read(fd, &expirations, 8) == 8 && expirations > 0);
        total += expirations;
    }
    printf("expirations %lu\n", (unsigned long)total);
    return ok();
}
