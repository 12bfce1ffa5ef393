// relive: threads=yes output=free expect=ok
// Two threads hand a value to and fro: each waits for its flag by plain loads, and sets the other one's by a plain
// store. How often they looked is part of the result.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

#define ROUNDS 100

static struct {
    _Alignas(64) _Atomic(int) round;
} flags[2];
static uint64_t value = 1, looks[2];

static void *work(void *arg) {
    int me = (int)(intptr_t)arg;
    for (int i = 1; i <= ROUNDS; i++) {
        while (atomic_load_explicit(&flags[me].round, memory_order_acquire) < i) {
            looks[me]++;
            __builtin_ia32_pause();
        }
        value = value * 31 + (uint64_t)me;
        atomic_store_explicit(&flags[!me].round, i + me, memory_order_release);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    for (intptr_t i = 0; i < 2; i++) CHECK0(pthread_create(&threads[i], NULL, work, (void *)i));
    atomic_store_explicit(&flags[0].round, 1, memory_order_release);
    for (int i = 0; i < 2; i++) CHECK0(pthread_join(threads[i], NULL));
    printf("%lx %lu %lu\n", value, looks[0], looks[1]);
    return ok();
}
