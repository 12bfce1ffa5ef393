// One text, and two locks. Both threads are there before either looks: the library's count of threads would order the end of
// the first before the birth of the second.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static char text[64];
static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t second = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;

static void *writer(void *argument) {
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&first);
    memcpy(text, "hello, world, this is a text", 29);
    pthread_mutex_unlock(&first);
    return argument;
}

static void *reader(void *argument) {
    char copy[64];
    pthread_barrier_wait(&both);
    pthread_mutex_lock(&second);
    memcpy(copy, text, 64);
    pthread_mutex_unlock(&second);
    printf("%.5s\n", copy);
    return argument;
}

int main(void) {
    pthread_t threads[2];
    pthread_barrier_init(&both, NULL, 2);
    pthread_create(&threads[0], NULL, writer, NULL);
    pthread_create(&threads[1], NULL, reader, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    return 0;
}
