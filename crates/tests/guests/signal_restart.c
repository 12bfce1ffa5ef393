// relive: threads=yes sketch=yes
// Reads, waits and sleeps that a signal interrupts: EINTR without SA_RESTART, restart with it.
#include "check.h"
#include <poll.h>
#include <pthread.h>
#include <time.h>

static volatile sig_atomic_t hits;
static pthread_t reader;
static int pipes[2];
static volatile int stop;

static void on_usr(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    (void)context;
    hits++;
}

// Sends signals until told to stop, so that one arrives inside the call for certain; after
// `limit` of them writes one byte.
static void *pester(void *limit) {
    struct timespec pause = {0, 2000000};
    long sent = 0;
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        nanosleep(&pause, NULL);
        CHECK(pthread_kill(reader, SIGUSR1) == 0);
        if (++sent == (long)limit) CHECK(write(pipes[1], "x", 1) == 1);
    }
    return NULL;
}

static void with_pester(long limit, void (*body)(void)) {
    pthread_t thread;
    hits = 0;
    __atomic_store_n(&stop, 0, __ATOMIC_RELEASE);
    CHECK0(pthread_create(&thread, NULL, pester, (void *)limit));
    body();
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    CHECK0(pthread_join(thread, NULL));
    CHECK(hits > 0);
}

static void read_restarts(void) {
    char byte;
    CHECK(read(pipes[0], &byte, 1) == 1 && byte == 'x');
}
static void read_fails(void) {
    char byte;
    CHECK(read(pipes[0], &byte, 1) == -1 && errno == EINTR);
}
static void poll_fails(void) {
    struct pollfd p = {pipes[0], POLLIN, 0};
    CHECK(poll(&p, 1, -1) == -1 && errno == EINTR); // never restarts, whatever the flags
}
static void pause_fails(void) { CHECK(pause() == -1 && errno == EINTR); }
static void sleep_fails(void) {
    struct timespec hour = {3600, 0}, left = {0, 0};
    CHECK(nanosleep(&hour, &left) == -1 && errno == EINTR && left.tv_sec >= 3590);
    // Of a sleep that has just begun some microseconds more are left: the kernel's slack (prctl(2), PR_SET_TIMERSLACK).
    CHECK(left.tv_sec < 3600 || (left.tv_sec == 3600 && left.tv_nsec < 1000000));
}

int main(void) {
    reader = pthread_self();
    CHECK(pipe(pipes) == 0);
    handle(SIGUSR1, on_usr, SA_RESTART);
    with_pester(5, read_restarts);
    with_pester(-1, poll_fails);
    handle(SIGUSR1, on_usr, 0);
    with_pester(-1, read_fails);
    with_pester(-1, pause_fails);
    with_pester(-1, sleep_fails);
    return ok();
}
