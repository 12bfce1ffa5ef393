// Three threads that count together and end one after the other, the last one of which nobody joins: ARGV[1] rounds, ARGV[2] microseconds of sleep between two.
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_long counted, over;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long mixed = 1;
static long rounds, pause_us;

static void *work(void *number) {
    for (long i = 0; i < rounds * (long)number; i++) {
        atomic_fetch_add(&counted, 1);
        pthread_mutex_lock(&lock);
        mixed = mixed * 6364136223846793005ul + (unsigned long)number;
        pthread_mutex_unlock(&lock);
        if (i % 16 == 0) dprintf(1, "%ld %ld\n", (long)number, i);
        if (pause_us) usleep(pause_us);
    }
    if ((long)number == 3) {
        atomic_store(&over, 1);
        syscall(SYS_exit, 0);
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[3];
    // Threads that make arenas of the heap at the same time look at a plain variable of the C library's: a data race.
    mallopt(M_ARENA_MAX, 1);
    rounds = argc > 1 ? atol(argv[1]) : 50;
    pause_us = argc > 2 ? atol(argv[2]) : 0;
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    while (!atomic_load(&over)) usleep(1000);
    printf("%ld %lx\n", atomic_load(&counted), mixed);
    return 0;
}
