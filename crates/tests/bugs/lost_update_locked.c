// The lock is released between reading and writing.
#include "bug.h"

static int x;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

static int get(void) {
    pthread_mutex_lock(&m);
    int value = x;
    pthread_mutex_unlock(&m);
    return value;
}

static void put(int value) {
    pthread_mutex_lock(&m);
    x = value;
    pthread_mutex_unlock(&m);
}

static void *add(void *a) {
    put(get() + 1);
    return a;
}

int main(void) {
    ALL(add, add, add);
    return x != 3;
}
