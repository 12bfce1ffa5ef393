// relive: threads=yes timeout=60
// A timer that calls a function in a thread of its own (SIGEV_THREAD) expires at once, and again: its signal comes to the C library's helper
// thread when that has only just been made. Each child process has such a thread of its own.
// The signal is ignored, as posix_spawn(3) leaves it to programs that it starts.
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>

enum { CHILDREN = 25, THREADS = 2, OF_LIBRARY = 32 };
static atomic_int stop;
static sem_t called;

static void calls(union sigval value) {
    CHECK(value.sival_int == 7);
    CHECK0(sem_post(&called));
}

static void *works(void *arg) {
    volatile long *count = arg;
    while (!atomic_load(&stop)) ++*count;
    return NULL;
}

static void expires(void) {
    pthread_t threads[THREADS];
    long counts[THREADS] = {0};
    CHECK0(sem_init(&called, 0, 0));
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, works, &counts[i]));
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = calls, .sigev_value.sival_int = 7};
    timer_t timer;
    CHECK0(timer_create(CLOCK_MONOTONIC, &event, &timer));
    struct itimerspec soon = {.it_value.tv_nsec = 1, .it_interval.tv_nsec = 1000000};
    CHECK0(timer_settime(timer, TIMER_ABSTIME, &soon, NULL));
    while (sem_wait(&called) != 0) CHECK(errno == EINTR);
    CHECK0(timer_delete(timer));
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
}

int main(void) {
    const struct { void *handler; unsigned long flags, restorer, mask; } ignores = {.handler = SIG_IGN};
    // sigaction(3) refuses the C library's own signals.
    CHECK0(syscall(SYS_rt_sigaction, OF_LIBRARY, &ignores, NULL, 8));
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child == 0) {
            expires();
            _exit(0);
        }
        CHECK(child > 0);
        expect_exit(child, 0);
    }
    return ok();
}
