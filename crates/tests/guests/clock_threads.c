// relive: threads=yes output=free
// Threads that read clocks without any system call, more often than any buffer holds: a time that
// one has read is never behind a time that another one had read and told before.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <x86intrin.h>

static _Atomic int64_t told;
static _Atomic uint64_t sum;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int64_t ns(clockid_t clock) {
    struct timespec t;
    CHECK(clock_gettime(clock, &t) == 0);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void *work(void *arg) {
    long seed = (long)arg;
    for (int i = 0; i < 3000; i++) {
        int64_t before = atomic_load(&told), now = ns(CLOCK_MONOTONIC);
        CHECK(now >= before);
        while (now > before && !atomic_compare_exchange_weak(&told, &before, now)) {
        }
        if (i % 7 == seed) atomic_fetch_add(&sum, __rdtsc() & 0xff);
        if (i % 97 == 0) {
            CHECK0(pthread_mutex_lock(&mutex));
            atomic_fetch_xor(&sum, (uint64_t)ns(CLOCK_REALTIME));
            CHECK0(pthread_mutex_unlock(&mutex));
        }
        if (i % 501 == 0) {
            struct timespec nap = {0, 1000};
            nanosleep(&nap, NULL);
        }
    }
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    for (long i = 0; i < 4; i++) CHECK0(pthread_create(&threads[i], NULL, work, (void *)i));
    for (int i = 0; i < 4; i++) CHECK0(pthread_join(threads[i], NULL));
    printf("%ld %lu\n", (long)atomic_load(&told), (unsigned long)atomic_load(&sum));
    return ok();
}
