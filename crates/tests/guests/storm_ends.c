// relive: threads=yes timeout=90
// Threads that end all the time, joined, detached, and with a robust lock in their hands; at last the
// first thread ends before the others.
//
// The detached ones are made so, and not by pthread_detach: glibc (2.36, bug 19951) reads the descriptor
// once more behind the exchange that detaches, when the thread may have ended and a third thread may have
// got its stack; a delay at that one instruction makes pthread_join or pthread_detach of the third EINVAL,
// natively too (26 of 60 runs with a delay of a millisecond).
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { SPAWNERS = 3, ROUNDS = 40 };
static pthread_mutex_t robust;
static atomic_int died, locked, detached;
static pthread_attr_t detached_attr;
static pthread_barrier_t all;

static void *holder(void *arg) {
    (void)arg;
    int got = pthread_mutex_lock(&robust);
    CHECK(got == 0 || got == EOWNERDEAD);
    if (got == EOWNERDEAD) {
        atomic_fetch_add(&died, 1);
        CHECK0(pthread_mutex_consistent(&robust));
    }
    atomic_fetch_add(&locked, 1);
    return malloc(100);
}

static void *brief(void *arg) {
    free(malloc(3000));
    atomic_fetch_add(&detached, 1);
    return arg;
}

static void *spawner(void *arg) {
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t held, gone;
        void *memory;
        CHECK0(pthread_create(&held, NULL, holder, NULL));
        CHECK0(pthread_create(&gone, &detached_attr, brief, NULL));
        CHECK0(pthread_join(held, &memory));
        free(memory);
    }
    // The last of them says how it went.
    if (pthread_barrier_wait(&all) == PTHREAD_BARRIER_SERIAL_THREAD) {
        while (atomic_load(&detached) < SPAWNERS * ROUNDS) sched_yield();
        CHECK(atomic_load(&locked) == SPAWNERS * ROUNDS);
        // Each but the first has found it with its last owner dead.
        CHECK(atomic_load(&died) == SPAWNERS * ROUNDS - 1);
        exit(ok());
    }
    for (;;) pause();
}

int main(void) {
    pthread_mutexattr_t attr;
    CHECK0(pthread_mutexattr_init(&attr));
    CHECK0(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST));
    CHECK0(pthread_mutex_init(&robust, &attr));
    CHECK0(pthread_attr_init(&detached_attr));
    CHECK0(pthread_attr_setdetachstate(&detached_attr, PTHREAD_CREATE_DETACHED));
    CHECK0(pthread_barrier_init(&all, NULL, SPAWNERS));
    for (int i = 0; i < SPAWNERS; i++) {
        pthread_t thread;
        CHECK0(pthread_create(&thread, NULL, spawner, NULL));
    }
    pthread_exit(NULL);
}
