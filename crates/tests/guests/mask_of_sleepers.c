// relive: threads=yes link=static,pie
// Threads that sleep in calls with a signal mask of their own, while the first one works: each has its former mask
// behind the call.
#include "check.h"
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <time.h>

enum { CALLS = 4 };
static int ends[CALLS][2];
static sigset_t inside, outside;
static atomic_int asleep, handled;

static void count(int number) {
    (void)number;
    atomic_fetch_add(&handled, 1);
}

static void sleep_in(int call) {
    int in = ends[call][0];
    struct pollfd poll = {.fd = in, .events = POLLIN};
    struct timespec long_time = {20, 0};
    if (call == 0) CHECK(ppoll(&poll, 1, &long_time, &inside) == 1);
    if (call == 1) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(in, &set);
        CHECK(pselect(in + 1, &set, NULL, NULL, &long_time, &inside) == 1);
    }
    if (call == 2) {
        int queue = epoll_create1(0);
        struct epoll_event event = {.events = EPOLLIN};
        CHECK(queue >= 0 && epoll_ctl(queue, EPOLL_CTL_ADD, in, &event) == 0);
        CHECK(epoll_pwait(queue, &event, 1, 20000, &inside) == 1);
        close(queue);
    }
    if (call == 3) CHECK(sigsuspend(&inside) == -1 && errno == EINTR);
}

static void *sleeper(void *arg) {
    int call = (int)(long)arg;
    sigset_t now;
    CHECK0(pthread_sigmask(SIG_SETMASK, &outside, NULL));
    atomic_fetch_add(&asleep, 1);
    sleep_in(call);
    CHECK0(pthread_sigmask(SIG_BLOCK, NULL, &now));
    for (int number = 1; number < 32; number++)
        CHECK(sigismember(&now, number) == sigismember(&outside, number));
    return NULL;
}

static void work(int ms) {
    struct timespec began, now;
    CHECK0(clock_gettime(CLOCK_MONOTONIC, &began));
    long long spent = 0;
    do {
        volatile int sum = 0;
        for (int i = 0; i < 20000; i++) sum = sum + i;
        CHECK(getppid() > 0);
        CHECK0(clock_gettime(CLOCK_MONOTONIC, &now));
        spent = (now.tv_sec - began.tv_sec) * 1000LL + (now.tv_nsec - began.tv_nsec) / 1000000;
    } while (spent < ms);
}

int main(void) {
    struct sigaction action = {.sa_handler = count};
    pthread_t threads[CALLS];
    CHECK0(sigaction(SIGUSR1, &action, NULL));
    sigfillset(&inside);
    sigdelset(&inside, SIGUSR1);
    sigemptyset(&outside);
    sigaddset(&outside, SIGUSR1);
    sigaddset(&outside, SIGHUP);
    for (long call = 0; call < CALLS; call++) {
        CHECK0(pipe(ends[call]));
        CHECK0(pthread_create(&threads[call], NULL, sleeper, (void *)call));
    }
    while (atomic_load(&asleep) < CALLS) sched_yield();
    work(120);
    for (int call = 0; call < CALLS - 1; call++) CHECK(write(ends[call][1], "x", 1) == 1);
    CHECK0(pthread_kill(threads[CALLS - 1], SIGUSR1));
    for (int call = 0; call < CALLS; call++) CHECK0(pthread_join(threads[call], NULL));
    CHECK(atomic_load(&handled) == 1);
    return ok();
}
