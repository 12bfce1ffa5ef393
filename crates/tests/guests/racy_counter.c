// relive: threads=yes output=free expect="total "
// Four threads add to one counter without a lock: increments get lost. The total depends on
// the schedule alone, so a replay must print its recording's total.
#include "check.h"
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 50000 };
static volatile long counter;
static pthread_barrier_t barrier;

static void *add(void *arg) {
    (void)arg;
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < ROUNDS; i++) {
        // Load, add and store, as three instructions.
        long value = counter;
        __asm__ volatile("" : "+r"(value));
        counter = value + 1;
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    CHECK0(pthread_barrier_init(&barrier, NULL, THREADS));
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, add, NULL));
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
    CHECK(counter > 0 && counter <= THREADS * ROUNDS);
    printf("total %ld of %d\n", counter, THREADS * ROUNDS);
    return ok();
}
