// A bounded queue without locks: each cell has a number that says whose turn it is. Two producers, two
// consumers, ten million items.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define CELLS 1024
#define ITEMS 5000000

static struct { _Alignas(64) atomic_ulong turn; unsigned long value; } cells[CELLS];
static _Alignas(64) atomic_ulong put_at;
static _Alignas(64) atomic_ulong take_at;

static void wait_a_little(unsigned *tries) {
    if (++*tries % 64)
        __builtin_ia32_pause();
    else
        sched_yield();
}

// Claims the cell at a place whose turn is the place plus `ahead`.
static unsigned long claim(atomic_ulong *place, unsigned long ahead) {
    unsigned tries = 0;
    unsigned long at = atomic_load_explicit(place, memory_order_relaxed);
    for (;;) {
        unsigned long turn = atomic_load_explicit(&cells[at % CELLS].turn, memory_order_acquire);
        long behind = (long)(turn - (at + ahead));
        if (behind == 0) {
            if (atomic_compare_exchange_weak_explicit(place, &at, at + 1, memory_order_relaxed, memory_order_relaxed))
                return at;
            continue;
        }
        if (behind < 0)
            wait_a_little(&tries);
        at = atomic_load_explicit(place, memory_order_relaxed);
    }
}

static void *produce(void *first) {
    for (unsigned long i = 0; i < ITEMS; i++) {
        unsigned long at = claim(&put_at, 0);
        cells[at % CELLS].value = (unsigned long)first + 2 * i;
        atomic_store_explicit(&cells[at % CELLS].turn, at + 1, memory_order_release);
    }
    return NULL;
}

static void *consume(void *unused) {
    (void)unused;
    unsigned long sum = 0;
    for (unsigned long i = 0; i < ITEMS; i++) {
        unsigned long at = claim(&take_at, 1);
        sum += cells[at % CELLS].value;
        atomic_store_explicit(&cells[at % CELLS].turn, at + CELLS, memory_order_release);
    }
    return (void *)sum;
}

int main(void) {
    pthread_t threads[4];
    for (unsigned long i = 0; i < CELLS; i++) atomic_init(&cells[i].turn, i);
    for (unsigned long i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, i % 2 ? consume : produce, (void *)(i / 2))) return 1;
    unsigned long sum = 0;
    for (int i = 0; i < 4; i++) {
        void *part;
        pthread_join(threads[i], &part);
        sum += (unsigned long)part;
    }
    printf("%lu\n", sum);
    return 0;
}
