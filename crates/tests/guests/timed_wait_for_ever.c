// relive: threads=yes
// Threads look at a clock, say so by a plain store, and wait with a limit that the program's end comes before: their tapes
// end with the clock's readings. The process maps a file shared first, so that its threads take turns in each mode.
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

enum { THREADS = 4 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static volatile int waits[THREADS];

static void *wait_long(void *arg) {
    struct timespec until;
    pthread_mutex_lock(&lock);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 600;
    waits[(long)arg] = 1;
    pthread_cond_timedwait(&never, &lock, &until);
    return 0;
}

int main(void) {
    int file = memfd_create("shared", 0);
    CHECK(file >= 0 && ftruncate(file, 4096) == 0);
    char *map = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(map != MAP_FAILED);
    map[1] = 1;
    for (long i = 0; i < THREADS; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, 0, wait_long, (void *)i) == 0);
    }
    int all;
    do {
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, 0);
        pthread_mutex_lock(&lock);
        all = 0;
        for (int i = 0; i < THREADS; i++)
            all += waits[i];
        pthread_mutex_unlock(&lock);
    } while (all < THREADS);
    return ok();
}
