// Two threads look at each other by plain loads, which no search can put in order, and then work together under a lock until the program aborts: ARGV[1] times one
// sees a step of the other.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile unsigned long ticking, seen, over;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned long counted;

static void work(const char *who) {
    for (int i = 0; i < 100; i++) {
        pthread_mutex_lock(&lock);
        counted++;
        if (counted % 20 == 0) printf("%s %lu\n", who, counted);
        pthread_mutex_unlock(&lock);
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

static void *other(void *unused) {
    while (!over) ticking++;
    work("other");
    return unused;
}

int main(int argc, char **argv) {
    pthread_t thread;
    long steps = argc > 1 ? atol(argv[1]) : 10000;
    setvbuf(stdout, NULL, _IOLBF, 0);
    pthread_create(&thread, NULL, other, NULL);
    for (unsigned long last = 0; steps > 0;) {
        unsigned long now = ticking;
        seen = seen * 31 + now;
        steps -= now != last;
        last = now;
    }
    over = 1;
    work("main");
    pthread_join(thread, NULL);
    printf("%lu\n", counted);
    abort();
}
