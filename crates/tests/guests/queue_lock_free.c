// relive: threads=yes output=free expect=ok
// A bounded queue without locks, with two producers and two consumers: cells are claimed by comparing exchanges, and
// handed on by plain stores of their sequence numbers.
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define CELLS 16
#define EACH 200

static struct {
    _Alignas(64) _Atomic(unsigned) sequence;
    uint64_t value;
} cells[CELLS];
static _Alignas(64) _Atomic(unsigned) head;
static _Alignas(64) _Atomic(unsigned) tail;
static uint64_t got[2];

// Claims a cell; `turn`: how far its sequence number is ahead of its place when it is this side's turn.
static unsigned claim(_Atomic(unsigned) *end, unsigned turn) {
    unsigned at = atomic_load_explicit(end, memory_order_relaxed);
    for (;;) {
        unsigned sequence = atomic_load_explicit(&cells[at % CELLS].sequence, memory_order_acquire);
        int ahead = (int)(sequence - (at + turn));
        if (ahead == 0 && atomic_compare_exchange_weak(end, &at, at + 1)) return at;
        if (ahead < 0) sched_yield();
        if (ahead != 0) at = atomic_load_explicit(end, memory_order_relaxed);
    }
}

static void *produce(void *arg) {
    for (uint64_t i = 0; i < EACH; i++) {
        unsigned at = claim(&tail, 0);
        cells[at % CELLS].value = (uint64_t)arg << 32 | i;
        atomic_store_explicit(&cells[at % CELLS].sequence, at + 1, memory_order_release);
    }
    return NULL;
}

static void *consume(void *arg) {
    uint64_t me = (uint64_t)arg;
    for (int i = 0; i < EACH; i++) {
        unsigned at = claim(&head, 1);
        got[me] = got[me] * 31 + cells[at % CELLS].value;
        atomic_store_explicit(&cells[at % CELLS].sequence, at + CELLS, memory_order_release);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    for (unsigned i = 0; i < CELLS; i++) cells[i].sequence = i;
    for (intptr_t i = 0; i < 4; i++) {
        CHECK0(pthread_create(&threads[i], NULL, i < 2 ? produce : consume, (void *)(i % 2)));
    }
    for (int i = 0; i < 4; i++) CHECK0(pthread_join(threads[i], NULL));
    CHECK(head == 2 * EACH && tail == 2 * EACH);
    printf("%lx %lx\n", got[0], got[1]);
    return ok();
}
