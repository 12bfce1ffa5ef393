// relive: threads=yes
// Robust mutexes: an owner thread or process dies, the next locker is told and repairs.
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

static void *die_holding(void *arg) {
    CHECK0(pthread_mutex_lock(arg));
    return NULL;
}

static void robust(pthread_mutex_t *mutex, int shared) {
    pthread_mutexattr_t attr;
    CHECK0(pthread_mutexattr_init(&attr));
    CHECK0(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST));
    CHECK0(pthread_mutexattr_setpshared(&attr, shared));
    CHECK0(pthread_mutex_init(mutex, &attr));
}

int main(void) {
    pthread_mutex_t local;
    robust(&local, PTHREAD_PROCESS_PRIVATE);
    for (int i = 0; i < 10; i++) {
        pthread_t thread;
        CHECK0(pthread_create(&thread, NULL, die_holding, &local));
        CHECK0(pthread_join(thread, NULL));
        CHECK(pthread_mutex_lock(&local) == EOWNERDEAD);
        CHECK0(pthread_mutex_consistent(&local));
        CHECK0(pthread_mutex_unlock(&local));
    }
    pthread_mutex_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    robust(shared, PTHREAD_PROCESS_SHARED);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK0(pthread_mutex_lock(shared));
        _exit(3);
    }
    expect_exit(child, 3);
    CHECK(pthread_mutex_lock(shared) == EOWNERDEAD);
    CHECK0(pthread_mutex_unlock(shared)); // not made consistent: lost for good
    CHECK(pthread_mutex_lock(shared) == ENOTRECOVERABLE);
    return ok();
}
