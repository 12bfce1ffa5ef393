// relive: threads=yes output=free expect=ok
// A sequence lock: the writer counts up, writes, and counts up again, all by plain stores; readers look again until
// they have seen one state of all.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

#define READERS 2
#define WRITES 200
#define READS 200

static _Atomic(unsigned) sequence;
static _Atomic(uint64_t) words[4];
static uint64_t again[READERS], sums[READERS];

static void *write_all(void *arg) {
    for (uint64_t i = 1; i <= WRITES; i++) {
        atomic_store_explicit(&sequence, (unsigned)(2 * i - 1), memory_order_relaxed);
        atomic_thread_fence(memory_order_release);
        for (int k = 0; k < 4; k++) atomic_store_explicit(&words[k], i * 4 + (uint64_t)k, memory_order_relaxed);
        atomic_store_explicit(&sequence, (unsigned)(2 * i), memory_order_release);
        for (int k = 0; k < 300; k++) __builtin_ia32_pause();
    }
    return arg;
}

static void *read_all(void *arg) {
    int me = (int)(intptr_t)arg;
    for (int i = 0; i < READS; i++) {
        uint64_t seen[4];
        for (;; again[me]++) {
            unsigned before = atomic_load_explicit(&sequence, memory_order_acquire);
            for (int k = 0; k < 4; k++) seen[k] = atomic_load_explicit(&words[k], memory_order_relaxed);
            atomic_thread_fence(memory_order_acquire);
            unsigned behind = atomic_load_explicit(&sequence, memory_order_relaxed);
            if (before == behind && before % 2 == 0) break;
        }
        for (int k = 1; k < 4; k++) CHECK(seen[0] == 0 || seen[k] == seen[0] + (uint64_t)k);
        sums[me] = sums[me] * 31 + seen[0];
        for (int k = 0; k < 200; k++) __builtin_ia32_pause();
    }
    return NULL;
}

int main(void) {
    pthread_t writer, readers[READERS];
    for (intptr_t i = 0; i < READERS; i++) CHECK0(pthread_create(&readers[i], NULL, read_all, (void *)i));
    CHECK0(pthread_create(&writer, NULL, write_all, NULL));
    for (int i = 0; i < READERS; i++) CHECK0(pthread_join(readers[i], NULL));
    CHECK0(pthread_join(writer, NULL));
    for (int i = 0; i < READERS; i++) printf("%lu %lx\n", again[i], sums[i]);
    return ok();
}
