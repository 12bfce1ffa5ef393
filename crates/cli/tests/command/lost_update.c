// Two threads add to a counter, each once. It seldom happens that one of both additions is lost.
#include <pthread.h>

static volatile int counter;

static void *add(void *a) {
    int old = counter;
    counter = old + 1;
    return a;
}

int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, add, NULL);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return counter != 2;
}
