// A waiter does not look again when it wakes: another one was first.
#include "bug.h"

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int items;

static void *take(void *a) {
    pthread_mutex_lock(&m);
    if (items == 0) pthread_cond_wait(&changed, &m);
    FAIL_IF(items == 0);
    items--;
    pthread_mutex_unlock(&m);
    return a;
}

static void *put(void *a) {
    for (int i = 0; i < 2; i++) {
        pthread_mutex_lock(&m);
        items++;
        pthread_cond_signal(&changed);
        pthread_mutex_unlock(&m);
    }
    return a;
}

int main(void) {
    ALL(take, take, put);
    return 0;
}
