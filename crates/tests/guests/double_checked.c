// relive: threads=yes output=free expect=ok
// Objects that are made when they are first used: a thread looks by a plain load, and once more with a lock held.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define THREADS 3
#define OBJECTS 100

struct object {
    uint64_t maker, number;
};
static _Atomic(struct object *) objects[OBJECTS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t sums[THREADS], late[THREADS];

static struct object *get(uint64_t me, uint64_t i) {
    struct object *found = atomic_load_explicit(&objects[i], memory_order_acquire);
    if (found != NULL) return found;
    CHECK0(pthread_mutex_lock(&mutex));
    found = atomic_load_explicit(&objects[i], memory_order_relaxed);
    if (found == NULL) {
        found = malloc(sizeof *found);
        CHECK(found != NULL);
        found->maker = me;
        found->number = i;
        atomic_store_explicit(&objects[i], found, memory_order_release);
    } else {
        late[me]++;
    }
    CHECK0(pthread_mutex_unlock(&mutex));
    return found;
}

static void *work(void *arg) {
    uint64_t me = (uint64_t)arg;
    for (uint64_t i = 0; i < OBJECTS; i++) {
        struct object *object = get(me, i);
        CHECK(object->number == i);
        sums[me] = sums[me] * 31 + object->maker;
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (uint64_t i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, work, (void *)i));
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
    for (int i = 0; i < THREADS; i++) printf("%lx %lu\n", sums[i], late[i]);
    return ok();
}
