// relive: threads=yes sketch=yes
// Sixty-four threads at once, each with thread-locals and its own part of one array.
#include "check.h"
#include <pthread.h>

enum { THREADS = 64, EACH = 500 };
static int cells[THREADS * EACH];
static __thread int count;
static pthread_barrier_t barrier;

static void *fill(void *arg) {
    int me = (int)(long)arg;
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < EACH; i++) {
        cells[me * EACH + i] = me;
        count++;
    }
    CHECK(count == EACH);
    return &cells[me * EACH];
}

int main(void) {
    pthread_t threads[THREADS];
    pthread_attr_t attr;
    CHECK0(pthread_attr_init(&attr));
    CHECK0(pthread_attr_setstacksize(&attr, 64 << 10));
    CHECK0(pthread_barrier_init(&barrier, NULL, THREADS));
    for (long i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], &attr, fill, (void *)i));
    long sum = 0;
    for (int i = 0; i < THREADS; i++) {
        void *part;
        CHECK0(pthread_join(threads[i], &part));
        for (int j = 0; j < EACH; j++) sum += ((int *)part)[j] == i;
    }
    CHECK(sum == THREADS * EACH);
    return ok();
}
