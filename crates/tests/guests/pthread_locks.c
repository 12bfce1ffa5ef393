// relive: threads=yes link=pie,static
// Mutexes of every kind, read-write locks, spin locks, condition variables, timed waits.
#include "check.h"
#include <pthread.h>
#include <time.h>

enum { THREADS = 4, ROUNDS = 2000 };
static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER, recursive, checked;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static long by_normal, by_recursive, by_spin, left_half, right_half;

static void *work(void *arg) {
    long me = (long)arg;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK0(pthread_mutex_lock(&normal));
        by_normal++;
        CHECK0(pthread_mutex_unlock(&normal));
        CHECK0(pthread_mutex_lock(&recursive));
        CHECK0(pthread_mutex_lock(&recursive));
        by_recursive++;
        CHECK0(pthread_mutex_unlock(&recursive));
        CHECK0(pthread_mutex_unlock(&recursive));
        CHECK0(pthread_spin_lock(&spin));
        by_spin++;
        CHECK0(pthread_spin_unlock(&spin));
        if (i % 4 == me) {
            CHECK0(pthread_rwlock_wrlock(&rwlock));
            left_half++;
            right_half++;
            CHECK0(pthread_rwlock_unlock(&rwlock));
        } else {
            CHECK0(pthread_rwlock_rdlock(&rwlock));
            CHECK(left_half == right_half);
            CHECK0(pthread_rwlock_unlock(&rwlock));
        }
    }
    return NULL;
}

static pthread_cond_t changed = PTHREAD_COND_INITIALIZER, monotonic;
static int turn;
static void *ping_pong(void *arg) {
    int me = (int)(long)arg;
    for (int i = 0; i < 500; i++) {
        CHECK0(pthread_mutex_lock(&normal));
        while (turn != me) CHECK0(pthread_cond_wait(&changed, &normal));
        turn = 1 - me;
        CHECK0(pthread_cond_broadcast(&changed));
        CHECK0(pthread_mutex_unlock(&normal));
    }
    return NULL;
}

int main(void) {
    pthread_mutexattr_t attr;
    CHECK0(pthread_mutexattr_init(&attr));
    CHECK0(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE));
    CHECK0(pthread_mutex_init(&recursive, &attr));
    CHECK0(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK));
    CHECK0(pthread_mutex_init(&checked, &attr));
    CHECK0(pthread_spin_init(&spin, 0));
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, work, (void *)i));
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
    CHECK(by_normal == THREADS * ROUNDS && by_recursive == by_normal && by_spin == by_normal);
    CHECK(left_half == ROUNDS && right_half == ROUNDS);
    CHECK0(pthread_mutex_lock(&checked));
    CHECK(pthread_mutex_lock(&checked) == EDEADLK && pthread_mutex_trylock(&checked) == EBUSY);
    CHECK0(pthread_mutex_unlock(&checked));
    CHECK(pthread_mutex_unlock(&checked) == EPERM);
    for (long i = 0; i < 2; i++) CHECK0(pthread_create(&threads[i], NULL, ping_pong, (void *)i));
    for (int i = 0; i < 2; i++) CHECK0(pthread_join(threads[i], NULL));
    CHECK(turn == 0);
    pthread_condattr_t clock;
    CHECK0(pthread_condattr_init(&clock));
    CHECK0(pthread_condattr_setclock(&clock, CLOCK_MONOTONIC));
    CHECK0(pthread_cond_init(&monotonic, &clock));
    struct timespec until, after;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &until) == 0);
    until.tv_nsec += 3000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    CHECK0(pthread_mutex_lock(&normal));
    int result;
    while ((result = pthread_cond_timedwait(&monotonic, &normal, &until)) == 0) {
    }
    CHECK(result == ETIMEDOUT && clock_gettime(CLOCK_MONOTONIC, &after) == 0);
    CHECK(after.tv_sec > until.tv_sec || (after.tv_sec == until.tv_sec && after.tv_nsec >= until.tv_nsec));
    struct timespec past = {1, 0};
    CHECK(pthread_mutex_timedlock(&recursive, &past) == 0);
    CHECK0(pthread_mutex_unlock(&normal));
    return ok();
}
