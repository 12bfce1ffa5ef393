// A flag that is volatile, and not atomic.
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

static volatile int done;
static int result;

static void *worker(void *argument) {
    result = 42;
    done = 1;
    return argument;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, worker, NULL);
    while (!done) sched_yield();
    printf("%d\n", result);
    pthread_join(thread, NULL);
    return 0;
}
