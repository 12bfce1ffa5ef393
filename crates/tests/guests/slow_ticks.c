// relive: threads=yes sketch=yes timeout=30
// One thread copies megabytes by single string instructions, and maps and unmaps memory, all the time: few branches take long. Another one
// sleeps and wakes many times beside it, and must come to its turns.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>

enum { SIZE = 4 << 20, SLEEPS = 20 };
static atomic_int stop;

static char *map(size_t size) {
    char *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static void *copies(void *arg) {
    char *memory = map(2 * SIZE);
    while (!atomic_load(&stop)) {
        char *to = memory, *from = memory + SIZE;
        size_t left = SIZE;
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(left) : : "memory");
    }
    return arg;
}

static void *maps(void *arg) {
    while (!atomic_load(&stop)) CHECK0(munmap(map(SIZE), SIZE));
    return arg;
}

static void sleeps_beside(void *(*busy)(void *)) {
    pthread_t thread;
    atomic_store(&stop, 0);
    CHECK0(pthread_create(&thread, NULL, busy, NULL));
    for (int i = 0; i < SLEEPS; i++) nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
    atomic_store(&stop, 1);
    CHECK0(pthread_join(thread, NULL));
}

int main(void) {
    sleeps_beside(copies);
    sleeps_beside(maps);
    return ok();
}
