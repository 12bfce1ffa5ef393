// A thread uses what its creator sets behind the creation. Sleeping orders nothing.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static int value = 3;
static int *config;

static void *reader(void *argument) {
    usleep(2000);
    return config ? (void *)(long)*config : argument;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, reader, NULL);
    config = &value;
    void *seen;
    pthread_join(thread, &seen);
    printf("%ld\n", (long)seen);
    return 0;
}
