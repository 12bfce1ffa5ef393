// Three locks in a circle.
#include "bug.h"

static pthread_mutex_t m[3] = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static void *work(void *a) {
    long first = (long)a, second = (first + 1) % 3;
    pthread_mutex_lock(&m[first]);
    pthread_mutex_lock(&m[second]);
    pthread_mutex_unlock(&m[second]);
    pthread_mutex_unlock(&m[first]);
    return a;
}

int main(void) {
    ALL(work, work, work);
    return 0;
}
