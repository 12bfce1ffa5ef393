// relive: threads=yes
// No more signals can be queued for the user (RLIMIT_SIGPENDING): the kernel drops what a signal of sigqueue(3) comes with,
// also of those by which the recorder's own threads call each other.
#include "check.h"

#include <pthread.h>
#include <sys/resource.h>

enum { THREADS = 4, ROUNDS = 4000, FORKS = 8 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long counted;

static void *count(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&lock);
        counted++;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

int main(void) {
    struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_SIGPENDING, &none) == 0);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, count, NULL) == 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0) _exit(i);
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == i);
    }
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(counted == (long)THREADS * ROUNDS);
    return ok();
}
