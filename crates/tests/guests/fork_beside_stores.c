// relive: link=pie threads=yes sketch=yes parallel=refused
// Children are forked while other threads store to memory, without anything that orders the two: the way of each child hangs on how far they were.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

static atomic_int begun, over;
static volatile unsigned counts[2];

static void *counts_on(void *number) {
    volatile unsigned *count = &counts[(long)number];
    atomic_fetch_add(&begun, 1);
    do {
        for (int i = 0; i < 1000; i++) (*count)++;
    } while (!atomic_load(&over));
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, counts_on, (void *)i) == 0);
    while (atomic_load(&begun) < 2) usleep(100);
    for (int i = 0; i < 20; i++) {
        int status;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            unsigned seen = counts[0] ^ counts[1];
            for (unsigned n = 0; n < (seen & 31); n++) CHECK(getppid() > 0);
            _exit((seen >> 5) & 31);
        }
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
        for (int n = 0; n < WEXITSTATUS(status); n++) CHECK(getpid() > 0);
    }
    atomic_store(&over, 1);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    puts("ok");
    return 0;
}
