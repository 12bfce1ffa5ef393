// A thread that has read a clock waits, without calls, for another one that writes: ARGV[1] lines.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static atomic_long begun, written;
static long rounds;

static void *wait(void *unused) {
    struct timespec now;
    for (long i = 0; i < rounds; i++) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        atomic_fetch_add(&begun, 1);
        while (atomic_load(&written) <= i) {}
    }
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    rounds = argc > 1 ? atol(argv[1]) : 20;
    pthread_create(&thread, NULL, wait, NULL);
    for (long i = 0; i < rounds; i++) {
        while (atomic_load(&begun) <= i) {}
        dprintf(1, "%ld\n", i);
        atomic_fetch_add(&written, 1);
    }
    pthread_join(thread, NULL);
    return 0;
}
