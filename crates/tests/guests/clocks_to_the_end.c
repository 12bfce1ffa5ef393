// relive: link=pie,static threads=yes sketch=yes output=free
// Threads that read clocks and count until their program ends: nothing follows on their tapes with which the last readings
// would be, and others have seen what came of them.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

enum { THREADS = 2, COUNTED = 2000, EACH = 7 };
static atomic_ulong counted, latest[THREADS];

static void *work(void *number) {
    long own = (long)number;
    for (unsigned long i = 0;; i++) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (i % EACH == 0) {
            atomic_fetch_or(&latest[own], (unsigned long)now.tv_nsec & 0xff);
            atomic_fetch_add(&counted, 1 + (now.tv_nsec & 1));
        }
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, work, (void *)i));
    while (atomic_fetch_add(&counted, 0) < COUNTED) sched_yield();
    printf("%lu\n", atomic_fetch_add(&counted, 0));
    for (int i = 0; i < THREADS; i++) printf("%lx\n", atomic_fetch_or(&latest[i], 0));
    return ok();
}
