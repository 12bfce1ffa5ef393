// relive: threads=yes timeout=90
// Several threads map, protect, move and unmap memory at the same time, some of it with code in it,
// some of it far from all other maps.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum { THREADS = 3, ROUNDS = 60, PAGE = 4096 };
static const int data = PROT_READ | PROT_WRITE;
static atomic_int stop;

static unsigned char *map(void *at, size_t len, int prot) {
    unsigned char *got = mmap(at, len, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(got != MAP_FAILED);
    return got;
}

static int run(unsigned char *code, int number) {
    unsigned char load[] = {0xb8, 0, 0, 0, 0, 0xc3}; // mov $number, %eax; ret
    memcpy(load + 1, &number, 4);
    memcpy(code, load, sizeof load);
    CHECK(mprotect(code, PAGE, PROT_READ | PROT_EXEC) == 0);
    return ((int (*)(void))code)();
}

static void *storm(void *arg) {
    long me = (long)arg;
    for (long i = 0; i < ROUNDS; i++) {
        size_t len = (size_t)(1 + (i + me) % 5) * PAGE;
        unsigned char *a = map(NULL, len, data);
        memset(a, (int)(me * 16 + i % 16), len);
        unsigned char *b = mremap(a, len, 2 * len, MREMAP_MAYMOVE);
        CHECK(b != MAP_FAILED && b[0] == me * 16 + i % 16 && b[len - 1] == b[0] && b[2 * len - 1] == 0);
        CHECK(mprotect(b, PAGE, PROT_READ) == 0 && munmap(b, 2 * len) == 0);
        unsigned char *code = map(NULL, PAGE, data);
        CHECK(run(code, (int)(me * 1000 + i)) == me * 1000 + i);
        // Another place for the same code, and the same place for other code.
        unsigned char *moved = mremap(code, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, map(NULL, PAGE, data));
        CHECK(moved != MAP_FAILED && ((int (*)(void))moved)() == me * 1000 + i);
        CHECK(mprotect(moved, PAGE, data) == 0 && run(moved, (int)i) == i);
        CHECK(munmap(moved, PAGE) == 0);
        if (i % 20 == 10) {
            void *far = (void *)(0x200000000000 + me * 0x10000000000 + i * 0x100000);
            unsigned char *there = map(far, PAGE, data);
            there[7] = 1;
            CHECK(munmap(there, PAGE) == 0);
        }
    }
    return NULL;
}

static int depth(int n) { return n == 0 ? 0 : 1 + depth(n - 1); }

// Calls and returns all the time.
static void *calls(void *arg) {
    int (*volatile down)(int) = depth;
    while (!atomic_load(&stop)) CHECK(down(50) == 50);
    return arg;
}

int main(void) {
    pthread_t threads[THREADS], caller;
    CHECK0(pthread_create(&caller, NULL, calls, NULL));
    for (long i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, storm, (void *)i));
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
    atomic_store(&stop, 1);
    CHECK0(pthread_join(caller, NULL));
    return ok();
}
