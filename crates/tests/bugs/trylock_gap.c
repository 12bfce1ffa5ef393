// Who does not get the lock believes that the work is done.
#include "bug.h"

static bool done;
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *a) {
    if (pthread_mutex_trylock(&m) == 0) {
        __atomic_store_n(&done, true, __ATOMIC_SEQ_CST);
        pthread_mutex_unlock(&m);
    } else {
        FAIL_IF(!__atomic_load_n(&done, __ATOMIC_SEQ_CST));
    }
    return a;
}

int main(void) {
    ALL(work, work);
    return 0;
}
