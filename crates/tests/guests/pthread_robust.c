// relive: threads=yes sketch=yes
// Robust mutexes: an owner thread dies, the next locker is told and repairs.
#include "check.h"
#include <pthread.h>

static void *die_holding(void *arg) {
    CHECK0(pthread_mutex_lock(arg));
    return NULL;
}

static void robust(pthread_mutex_t *mutex) {
    pthread_mutexattr_t attr;
    CHECK0(pthread_mutexattr_init(&attr));
    CHECK0(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST));
    CHECK0(pthread_mutex_init(mutex, &attr));
}

int main(void) {
    pthread_mutex_t local;
    robust(&local);
    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        CHECK0(pthread_create(&thread, NULL, die_holding, &local));
        CHECK0(pthread_join(thread, NULL));
        CHECK(pthread_mutex_lock(&local) == EOWNERDEAD);
        CHECK0(pthread_mutex_consistent(&local));
        CHECK0(pthread_mutex_unlock(&local));
    }
    // Not made consistent: lost for good.
    pthread_t thread;
    CHECK0(pthread_create(&thread, NULL, die_holding, &local));
    CHECK0(pthread_join(thread, NULL));
    CHECK(pthread_mutex_lock(&local) == EOWNERDEAD);
    CHECK0(pthread_mutex_unlock(&local));
    CHECK(pthread_mutex_lock(&local) == ENOTRECOVERABLE);
    return ok();
}
