// The condition is looked at without the lock.
#include "bug.h"

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static volatile bool ready;

static void *await(void *a) {
    if (!ready) {
        pthread_mutex_lock(&m);
        pthread_cond_wait(&changed, &m);
        pthread_mutex_unlock(&m);
    }
    return a;
}

static void *wake(void *a) {
    ready = true;
    pthread_mutex_lock(&m);
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&m);
    return a;
}

int main(void) {
    ALL(await, wake);
    return 0;
}
