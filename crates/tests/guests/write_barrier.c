// relive: threads=yes sketch=yes parallel=exact
// Write access is taken away while other threads store, and each takes it back when it faults: a collector's write barrier. What each of them has
// stored before is known to nobody but itself.
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum { THREADS = 2, TIMES = 10, PAGE = 4096 };

static char *heap;
static atomic_int faults, stop;

static void give_back(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    int saved = errno;
    CHECK(mprotect((void *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1)), PAGE, PROT_READ | PROT_WRITE) == 0);
    atomic_fetch_add(&faults, 1);
    errno = saved;
}

static void *store(void *number) {
    char *mine = heap + (uintptr_t)number * PAGE;
    while (!atomic_load(&stop))
        for (int i = 0; i < 1000; i++) mine[i]++;
    return NULL;
}

int main(void) {
    handle(SIGSEGV, give_back, 0);
    heap = mmap(NULL, THREADS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(heap != MAP_FAILED);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, store, (void *)i));
    for (int i = 0; i < TIMES; i++) {
        CHECK(mprotect(heap, THREADS * PAGE, PROT_READ) == 0);
        usleep(500);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
    CHECK(atomic_load(&faults) > 0);
    return ok();
}
