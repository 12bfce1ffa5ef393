// Two locks, in one order here and in the other there.
#include "bug.h"

static pthread_mutex_t m[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static void *work(void *a) {
    int first = a != NULL;
    pthread_mutex_lock(&m[first]);
    pthread_mutex_lock(&m[!first]);
    pthread_mutex_unlock(&m[!first]);
    pthread_mutex_unlock(&m[first]);
    return a;
}

int main(void) {
    ALL(work, work);
    return 0;
}
