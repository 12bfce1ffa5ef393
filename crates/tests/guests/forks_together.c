// relive: threads=yes sketch=yes parallel=refused timeout=60
// Threads fork at the same time, while others stand still, sleep, or wait to fork or to map memory too: each child ends with a status that is
// made of what all threads had stored by then, by plain stores, atomic ones and a lock.
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "check.h"

enum { THREADS = 4, ROUNDS = 12 };

static volatile long plain[THREADS];
static atomic_long steps;
static long locked;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int seen(void) {
    long sum = steps + locked;
    for (int i = 0; i < THREADS; i++) sum = 3 * sum + plain[i];
    return (int)(sum & 127);
}

static void *work(void *arg) {
    long thread = (long)arg;
    for (int i = 0; i < ROUNDS; i++) {
        plain[thread]++;
        steps++;
        if (thread % 2) {
            pthread_mutex_lock(&lock);
            locked++;
            pthread_mutex_unlock(&lock);
        }
        if (i % 3 == thread % 3) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0) _exit(seen());
            int status;
            CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
        } else {
            void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            CHECK(page != MAP_FAILED && munmap(page, 4096) == 0);
        }
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(steps == THREADS * ROUNDS && locked == THREADS / 2 * ROUNDS);
    puts("ok");
    return 0;
}
