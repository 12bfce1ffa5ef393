// relive: threads=yes output=free expect="seen " timeout=60
// Two threads count in words far apart in a gibibyte, without a lock, while a third one discards, protects, moves and unmaps
// large parts of it. What is left of the counts depends on the order alone.
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

#define GIB (1UL << 30)
#define STEP (48UL << 20)
#define PART (GIB / 4)

enum { ROUNDS = 40 };

static char *volatile map;
static volatile unsigned long seen;

// Words of its own, in the first half, and words that both count in.
static void *counts(void *arg) {
    unsigned long own = (unsigned long)arg * 8;
    for (int round = 0; round < 40 * ROUNDS; round++) {
        for (unsigned long at = 0; at < GIB / 2; at += STEP) {
            volatile unsigned long *words = (void *)(map + at);
            words[own]++;
            words[4]++;
            words[512 + own]++;
            seen += words[4] == 1;
        }
    }
    return NULL;
}

static char *reserve(void) {
    char *at = mmap(NULL, GIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

int main(void) {
    map = reserve();
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) CHECK0(pthread_create(&threads[i], NULL, counts, (void *)i));
    for (int round = 0; round < ROUNDS; round++) {
        CHECK0(madvise(map, GIB, MADV_DONTNEED));
        CHECK0(madvise(map + STEP, PART - 4096, MADV_DONTNEED));
        // What nobody else uses.
        char *half = map + GIB / 2;
        half[PART] = 1;
        CHECK0(mprotect(half + 4096, PART, PROT_NONE));
        CHECK0(mprotect(half + 4096, PART, PROT_READ | PROT_WRITE));
        CHECK(half[PART] == 1);
        char *other = reserve();
        other[PART + 5] = (char)round;
        CHECK(mremap(other + PART, PART, PART, MREMAP_MAYMOVE | MREMAP_FIXED, half) == half);
        CHECK(half[5] == (char)round);
        CHECK0(munmap(other, GIB));
    }
    for (int i = 0; i < 2; i++) CHECK0(pthread_join(threads[i], NULL));
    unsigned long left = 0;
    for (unsigned long at = 0; at < GIB / 2; at += STEP) left += *(unsigned long *)(map + at + 32);
    printf("seen %lu left %lu\n", seen, left);
    CHECK0(munmap(map, GIB));
    return ok();
}
