// relive:
// A robust mutex in shared memory: its owner process dies, the next locker is told.
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

int main(void) {
    pthread_mutex_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    pthread_mutexattr_t attr;
    CHECK0(pthread_mutexattr_init(&attr));
    CHECK0(pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST));
    CHECK0(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED));
    CHECK0(pthread_mutex_init(shared, &attr));
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
