// relive: threads=yes output=free expect=ok
// Hazard pointers: readers publish by an exchange what they are about to read, and look again whether it is still
// there; the writer replaces it, and uses a node again only when no reader has published it.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

#define READERS 2
#define NODES 8
#define ROUNDS 200

struct node {
    _Alignas(64) uint64_t value, twice;
};
static struct node nodes[NODES];
static _Atomic(struct node *) current = &nodes[0];
static struct {
    _Alignas(64) _Atomic(struct node *) node;
} hazards[READERS];
static uint64_t sums[READERS], again[READERS], kept;

static void *read_all(void *arg) {
    uint64_t me = (uint64_t)arg;
    for (int i = 0; i < ROUNDS; i++) {
        struct node *node = atomic_load_explicit(&current, memory_order_acquire);
        for (;;) {
            atomic_exchange(&hazards[me].node, node);
            struct node *now = atomic_load_explicit(&current, memory_order_acquire);
            if (now == node) break;
            node = now;
            again[me]++;
        }
        CHECK(node->twice == 2 * node->value);
        sums[me] = sums[me] * 31 + node->value;
        atomic_store_explicit(&hazards[me].node, NULL, memory_order_release);
        for (int k = 0; k < 100; k++) __builtin_ia32_pause();
    }
    return NULL;
}

static int is_free(struct node *node) {
    for (int i = 0; i < READERS; i++) {
        if (atomic_load_explicit(&hazards[i].node, memory_order_acquire) == node) return 0;
    }
    return node != atomic_load_explicit(&current, memory_order_relaxed);
}

int main(void) {
    pthread_t readers[READERS];
    for (uint64_t i = 0; i < READERS; i++) CHECK0(pthread_create(&readers[i], NULL, read_all, (void *)i));
    for (uint64_t i = 1, at = 0; i <= ROUNDS; i++) {
        for (at = (at + 1) % NODES; !is_free(&nodes[at]); at = (at + 1) % NODES) kept++;
        nodes[at].value = i;
        nodes[at].twice = 2 * i;
        atomic_exchange(&current, &nodes[at]);
        for (int k = 0; k < 100; k++) __builtin_ia32_pause();
    }
    for (int i = 0; i < READERS; i++) CHECK0(pthread_join(readers[i], NULL));
    for (int i = 0; i < READERS; i++) printf("%lx %lu\n", sums[i], again[i]);
    printf("%lu\n", kept);
    return ok();
}
