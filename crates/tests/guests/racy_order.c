// relive: threads=yes output=free
// Threads write their letters into one buffer and to one pipe in whatever order the schedule
// gives; the order is the output.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, EACH = 200 };
static char log_text[THREADS * EACH + 2];
static atomic_int used;
static int pipes[2];

static void *letters(void *arg) {
    char letter = (char)('a' + (long)arg);
    for (int i = 0; i < EACH; i++) {
        log_text[atomic_fetch_add(&used, 1)] = letter;
        if (i % 20 == 0) CHECK(write(pipes[1], &letter, 1) == 1);
        if (i % 7 == 0) sched_yield();
    }
    return NULL;
}

int main(void) {
    CHECK(pipe(pipes) == 0);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, letters, (void *)i));
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
    char order[64] = "";
    CHECK(read(pipes[0], order, sizeof order - 1) == THREADS * EACH / 20);
    printf("%s\n%s\n", log_text, order);
    return ok();
}
