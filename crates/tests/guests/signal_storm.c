// relive: threads=yes output=free timeout=60
// Signals at threads that allocate, lock, print into memory and make system calls all the
// while: delivery at any instruction must not disturb them.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

static atomic_int stop, hits;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void on_usr(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    (void)context;
    int saved = errno;
    char text[1];
    CHECK(read(-1, text, 1) == -1 && errno == EBADF);
    atomic_fetch_add(&hits, 1);
    errno = saved;
}

static void *work(void *arg) {
    long rounds = 0;
    while (!atomic_load(&stop)) {
        size_t n = 16 + (size_t)(rounds * 37 % 2000);
        char *p = malloc(n);
        memset(p, (int)rounds, n);
        CHECK0(pthread_mutex_lock(&mutex));
        CHECK(snprintf(p, n, "%ld-%.3f", rounds, (double)rounds / 7) > 0);
        CHECK0(pthread_mutex_unlock(&mutex));
        CHECK(strtol(p, NULL, 10) == rounds && getppid() > 0);
        free(p);
        rounds++;
    }
    *(long *)arg = rounds;
    return NULL;
}

int main(void) {
    handle(SIGUSR1, on_usr, SA_RESTART);
    pthread_t threads[3];
    long rounds[3] = {0, 0, 0};
    for (int i = 0; i < 3; i++) CHECK0(pthread_create(&threads[i], NULL, work, &rounds[i]));
    struct timespec nap = {0, 50000};
    while (atomic_load(&hits) < 300) {
        for (int i = 0; i < 3; i++) CHECK0(pthread_kill(threads[i], SIGUSR1));
        nanosleep(&nap, NULL);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 3; i++) CHECK0(pthread_join(threads[i], NULL));
    printf("rounds %ld %ld %ld\n", rounds[0], rounds[1], rounds[2]);
    return ok();
}
