// Four threads, eight mutexes, eight million lock operations in all.
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t locks[8];
static long values[8];

static void *work(void *argument) {
    unsigned state = 12345u + (unsigned)(long)argument;
    for (int i = 0; i < 2000000; i++) {
        state = state * 1664525u + 1013904223u;
        unsigned which = state >> 29;
        pthread_mutex_lock(&locks[which]);
        values[which]++;
        pthread_mutex_unlock(&locks[which]);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 8; i++) pthread_mutex_init(&locks[i], NULL);
    for (long i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i)) return 1;
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    long sum = 0;
    for (int i = 0; i < 8; i++) sum += values[i];
    printf("%ld\n", sum);
    return 0;
}
