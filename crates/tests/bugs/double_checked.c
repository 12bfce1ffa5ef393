// The flag is set before the value.
#include "bug.h"

static volatile bool ready;
static volatile int value;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

static int get(void) {
    if (!ready) {
        pthread_mutex_lock(&m);
        if (!ready) {
            ready = true;
            value = 42;
        }
        pthread_mutex_unlock(&m);
    }
    return value;
}

static void *use(void *a) {
    FAIL_IF(get() != 42);
    return a;
}

int main(void) {
    ALL(use, use, use);
    return 0;
}
