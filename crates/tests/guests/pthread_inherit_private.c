// relive: threads=yes sketch=yes parallel=refused timeout=60
// Mutexes with priority inheritance in memory of one process: threads that have run together by then wait for one, with and without a time limit,
// and go on with it, with a condition and with plain mutexes.
#include "check.h"
#include <errno.h>
#include <pthread.h>
#include <time.h>

enum { THREADS = 4, ROUNDS = 100 };

static pthread_mutex_t inherit, plain = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t reached = PTHREAD_COND_INITIALIZER;
static long count, together, waiting;

static void *add(void *arg) {
    // The kernel knows nothing of these.
    for (int i = 0; i < ROUNDS; i++) __atomic_fetch_add(&together, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(pthread_mutex_lock(&inherit) == 0);
        long value = count;
        for (volatile int n = 0; n < 50; n++) {}
        count = value + 1;
        CHECK(pthread_mutex_unlock(&inherit) == 0);
        __atomic_fetch_add(&together, 1, __ATOMIC_SEQ_CST);
    }
    CHECK(pthread_mutex_lock(&plain) == 0);
    waiting++;
    CHECK(pthread_cond_signal(&reached) == 0);
    CHECK(pthread_mutex_unlock(&plain) == 0);
    return arg;
}

static void *wait_a_while(void *arg) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 3000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    CHECK(pthread_mutex_timedlock(&inherit, &until) == ETIMEDOUT);
    return arg;
}

int main(void) {
    pthread_mutexattr_t attr;
    CHECK(pthread_mutexattr_init(&attr) == 0);
    CHECK(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT) == 0);
    CHECK(pthread_mutex_init(&inherit, &attr) == 0);
    pthread_t threads[THREADS], waiter;
    CHECK(pthread_mutex_lock(&inherit) == 0);
    CHECK(pthread_create(&waiter, NULL, wait_a_while, NULL) == 0);
    CHECK(pthread_join(waiter, NULL) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, add, NULL) == 0);
    CHECK(pthread_mutex_unlock(&inherit) == 0);
    CHECK(pthread_mutex_lock(&plain) == 0);
    while (waiting < THREADS) CHECK(pthread_cond_wait(&reached, &plain) == 0);
    CHECK(pthread_mutex_unlock(&plain) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(count == THREADS * ROUNDS && together == 2 * THREADS * ROUNDS);
    puts("ok");
    return 0;
}
