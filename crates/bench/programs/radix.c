// Radix sort of eight million numbers by two threads: each counts the digits of its half, and moves its numbers to their
// places, which lie anywhere.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS (1l << 23)
#define THREADS 2
#define DIGITS 256

static unsigned *numbers, *sorted;
static struct { _Alignas(64) unsigned of[DIGITS]; } counts[THREADS];
static pthread_barrier_t barrier;

static void *work(void *number) {
    long thread = (long)number;
    long from = thread * NUMBERS / THREADS, to = (thread + 1) * NUMBERS / THREADS;
    unsigned *source = numbers, *target = sorted;
    for (int shift = 0; shift < 32; shift += 8) {
        unsigned *own = counts[thread].of;
        memset(own, 0, sizeof counts[thread].of);
        for (long i = from; i < to; i++) own[source[i] >> shift & (DIGITS - 1)]++;
        pthread_barrier_wait(&barrier);
        unsigned places[DIGITS], place = 0;
        for (int digit = 0; digit < DIGITS; digit++)
            for (int other = 0; other < THREADS; other++) {
                if (other == thread) places[digit] = place;
                place += counts[other].of[digit];
            }
        for (long i = from; i < to; i++) target[places[source[i] >> shift & (DIGITS - 1)]++] = source[i];
        pthread_barrier_wait(&barrier);
        unsigned *done = target;
        target = source;
        source = done;
    }
    return NULL;
}

int main(void) {
    numbers = malloc(NUMBERS * sizeof *numbers);
    sorted = malloc(NUMBERS * sizeof *sorted);
    if (!numbers || !sorted || pthread_barrier_init(&barrier, NULL, THREADS)) return 1;
    unsigned state = 1;
    for (long i = 0; i < NUMBERS; i++) numbers[i] = state = state * 1664525u + 1013904223u;
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i)) return 1;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    for (long i = 1; i < NUMBERS; i++)
        if (numbers[i - 1] > numbers[i]) return 1;
    printf("%u %u\n", numbers[0], numbers[NUMBERS / 2]);
    return 0;
}
