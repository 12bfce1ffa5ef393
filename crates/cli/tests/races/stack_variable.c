// A variable on the stack of a thread, which another thread was given.
#include <pthread.h>
#include <stdio.h>

static void *worker(void *argument) {
    *(int *)argument = 5;
    return NULL;
}

int main(void) {
    int local = 1;
    pthread_t thread;
    pthread_create(&thread, NULL, worker, &local);
    int seen = *(volatile int *)&local;
    pthread_join(thread, NULL);
    printf("%d\n", seen);
    return 0;
}
