// Two threads add to one counter.
#include <pthread.h>
#include <stdio.h>

static int counter;

static void *worker(void *argument) {
    for (int i = 0; i < 1000; i++) counter++;
    return argument;
}

int main(void) {
    pthread_t first, second;
    pthread_create(&first, NULL, worker, NULL);
    pthread_create(&second, NULL, worker, NULL);
    pthread_join(first, NULL);
    pthread_join(second, NULL);
    printf("%d\n", counter);
    return 0;
}
