// relive: threads=yes timeout=150
// Threads that wait for each other by spinning: with pause, without pause, with sched_yield,
// by a ticket lock and through a lock-free queue. A schedule that never switches hangs here.
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

static atomic_int turn, stage;
static atomic_uint next_ticket, now_serving;
static long guarded;
enum { RING = 64, ITEMS = 5000 };
static int ring[RING];
static atomic_uint head, tail;

static void relax(int how) {
    if (how == 0) __builtin_ia32_pause();
    if (how == 1) sched_yield();
}

static void *alternate(void *arg) {
    int me = (int)(long)arg;
    for (int how = 0; how < 3; how++)
        for (int i = 0; i < 30; i++) {
            while (atomic_load(&turn) != me) relax(how);
            atomic_store(&turn, 1 - me);
        }
    return NULL;
}

static void *ticket(void *arg) {
    for (int i = 0; i < 300; i++) {
        unsigned mine = atomic_fetch_add(&next_ticket, 1);
        while (atomic_load(&now_serving) != mine) relax((int)(long)arg & 1);
        guarded++;
        atomic_store(&now_serving, mine + 1);
    }
    return NULL;
}

static void *produce(void *arg) {
    (void)arg;
    for (int i = 0; i < ITEMS; i++) {
        while (atomic_load(&head) - atomic_load(&tail) == RING) relax(1);
        ring[atomic_load(&head) % RING] = i;
        atomic_fetch_add(&head, 1);
    }
    return NULL;
}

static void *wait_for_stage(void *arg) {
    (void)arg;
    while (atomic_load_explicit(&stage, memory_order_acquire) == 0) {
    }
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    for (long i = 0; i < 2; i++) CHECK0(pthread_create(&threads[i], NULL, alternate, (void *)i));
    for (int i = 0; i < 2; i++) CHECK0(pthread_join(threads[i], NULL));
    for (long i = 0; i < 4; i++) CHECK0(pthread_create(&threads[i], NULL, ticket, (void *)i));
    for (int i = 0; i < 4; i++) CHECK0(pthread_join(threads[i], NULL));
    CHECK(guarded == 1200);
    CHECK0(pthread_create(&threads[0], NULL, produce, NULL));
    for (int i = 0; i < ITEMS; i++) {
        while (atomic_load(&head) == atomic_load(&tail)) relax(1);
        CHECK(ring[atomic_load(&tail) % RING] == i);
        atomic_fetch_add(&tail, 1);
    }
    CHECK0(pthread_join(threads[0], NULL));
    for (int i = 0; i < 3; i++) CHECK0(pthread_create(&threads[i], NULL, wait_for_stage, NULL));
    for (int i = 0; i < 100; i++) sched_yield();
    atomic_store_explicit(&stage, 1, memory_order_release);
    for (int i = 0; i < 3; i++) CHECK0(pthread_join(threads[i], NULL));
    return ok();
}
