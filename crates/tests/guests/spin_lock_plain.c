// relive: threads=yes output=free expect=ok
// A spin lock that is taken by an exchange and freed by a plain store: only the values that exchanges read say
// when it was free.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

#define THREADS 3
#define ROUNDS 300

static _Atomic(int) lock;
static uint64_t mixed, taken[THREADS];

static void *work(void *arg) {
    uint64_t me = (uint64_t)arg, own = me;
    for (int i = 0; i < ROUNDS; i++) {
        while (atomic_exchange_explicit(&lock, 1, memory_order_acquire)) {
            while (atomic_load_explicit(&lock, memory_order_relaxed)) __builtin_ia32_pause();
        }
        mixed = mixed * 31 + me;
        taken[me]++;
        atomic_store_explicit(&lock, 0, memory_order_release);
        for (int k = 0; k < 200; k++) own = own * 6364136223846793005 + 1;
        __asm__ volatile("" : "+r"(own));
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (uint64_t i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, work, (void *)i));
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
    for (int i = 0; i < THREADS; i++) CHECK(taken[i] == ROUNDS);
    printf("%lx\n", mixed);
    return ok();
}
