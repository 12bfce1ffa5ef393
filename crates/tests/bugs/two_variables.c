// Two values that belong together are changed under the lock, but not at once.
#include "bug.h"

static int x, y;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

static void set(int *at) {
    pthread_mutex_lock(&m);
    *at = 1;
    pthread_mutex_unlock(&m);
}

static void *change(void *a) {
    set(&x);
    set(&y);
    return a;
}

static void *look(void *a) {
    pthread_mutex_lock(&m);
    bool same = x == y;
    pthread_mutex_unlock(&m);
    FAIL_IF(!same);
    return a;
}

int main(void) {
    ALL(change, look);
    return 0;
}
