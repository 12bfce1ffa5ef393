// relive: threads=yes timeout=30
// Threads and processes that wait for each other in loops that say nothing of it: without pause,
// sched_yield or a system call. While one of them spins no other may run for long.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <x86intrin.h>

enum { ROUNDS = 2000, LOOKS = 300 };

struct table {
    volatile int turn;
    _Atomic long pending;
    _Atomic int stop;
    volatile int lock;
    long sum;
};
static struct table own;

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

// A word that is handed to and fro.
static void hand_over(struct table *t, int me, int rounds) {
    for (int i = 0; i < rounds; i++) {
        while (t->turn != me) {}
        t->turn = !me;
    }
}

// The same as a debug build compiles it: with a counter on the stack.
static void hand_over_slowly(struct table *t, int me) {
    for (int i = 0; i < ROUNDS; i++) {
        for (volatile long n = 0; t->turn != me; n++) {}
        t->turn = !me;
    }
}

// With a look at the time-stamp counter, or at a clock, in each round.
static void hand_over_in_time(struct table *t, int me) {
    for (int i = 0; i < LOOKS; i++) {
        uint64_t start = __rdtsc();
        while (t->turn != me) CHECK(__rdtsc() - start < 1ULL << 48);
        t->turn = !me;
    }
    for (int i = 0; i < LOOKS; i++) {
        int64_t start = now();
        while (t->turn != me) CHECK(now() - start < 1000000000000LL);
        t->turn = !me;
    }
}

// A counted loop that looks for work, and one that waits until all of it is done.
static void worker(struct table *t) {
    for (;;) {
        for (int i = 0; i < 1000000 && !atomic_load(&t->pending); i++) {}
        if (atomic_load(&t->stop)) return;
        if (!atomic_load(&t->pending)) continue;
        t->sum++;
        atomic_store(&t->pending, 0);
    }
}

static void employer(struct table *t) {
    for (int i = 0; i < LOOKS; i++) {
        atomic_store(&t->pending, 1);
        for (;;) {
            long left = 0;
            for (int j = 0; j < 1; j++) left += atomic_load(&t->pending + j);
            if (!left) break;
        }
    }
    atomic_store(&t->stop, 1);
}

// A lock that is taken by test and set.
static void lock(struct table *t) {
    for (int i = 0; i < ROUNDS; i++) {
        while (__atomic_exchange_n(&t->lock, 1, __ATOMIC_ACQUIRE)) {}
        t->sum++;
        __atomic_store_n(&t->lock, 0, __ATOMIC_RELEASE);
    }
}

static void all(struct table *t, int me) {
    hand_over(t, me, ROUNDS);
    hand_over_slowly(t, me);
    hand_over_in_time(t, me);
    if (me) worker(t);
    else employer(t);
    lock(t);
}

static void *thread(void *me) {
    all(&own, me != NULL);
    return NULL;
}

int main(void) {
    pthread_t other;
    CHECK(pthread_create(&other, NULL, thread, &own) == 0);
    all(&own, 0);
    CHECK(pthread_join(other, NULL) == 0);
    CHECK(own.sum == LOOKS + 2 * ROUNDS);

    struct table *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        hand_over(shared, 1, ROUNDS);
        _exit(0);
    }
    hand_over(shared, 0, ROUNDS);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    puts("ok");
}
