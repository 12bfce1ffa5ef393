// A queue is closed between the check and the item, which is then lost.
#include "bug.h"

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static bool closed;
static int items;

static void *put(void *a) {
    pthread_mutex_lock(&m);
    bool open = !closed;
    pthread_mutex_unlock(&m);
    if (!open) return a;
    pthread_mutex_lock(&m);
    items++;
    pthread_mutex_unlock(&m);
    return a;
}

static void *close_it(void *a) {
    pthread_mutex_lock(&m);
    closed = true;
    items = 0;
    pthread_mutex_unlock(&m);
    return a;
}

int main(void) {
    ALL(put, close_it);
    return items != 0;
}
