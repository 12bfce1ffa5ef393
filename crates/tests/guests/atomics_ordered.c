// relive: sketch=yes parallel=exact threads=yes flags=-Wl,-z,now output=free expect=ok
// Threads whose every look at each other is an atomic instruction that writes, or a call: what they come to is
// chance, and the order of these operations decides all of it. No look is a plain load: a thread reads by
// adding nothing.
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define THREADS 4
#define ROUNDS 3000

static uint32_t lock, done, turn, tickets[8];
static uint64_t mixed;
static _Atomic(uint64_t) sum;

// In assembly: a compiler may make a plain load of it.
static uint32_t look(uint32_t *word) {
    uint32_t seen = 0;
    __asm__ volatile("lock xaddl %0, %1" : "+r"(seen), "+m"(*word) : : "memory", "cc");
    return seen;
}

static void futex(uint32_t *word, int op, uint32_t value) { syscall(SYS_futex, word, op, value, NULL, NULL, 0); }

// A lock that is freed by an exchange.
static void take(void) {
    if (__atomic_exchange_n(&lock, 1, __ATOMIC_SEQ_CST) == 0) return;
    while (__atomic_exchange_n(&lock, 2, __ATOMIC_SEQ_CST) != 0) futex(&lock, FUTEX_WAIT_PRIVATE, 2);
}

static void give(void) {
    if (__atomic_exchange_n(&lock, 0, __ATOMIC_SEQ_CST) == 2) futex(&lock, FUTEX_WAKE_PRIVATE, 1);
}

static void *work(void *arg) {
    uint64_t me = (uint64_t)(uintptr_t)arg, own = me;
    for (int i = 0; i < ROUNDS; i++) {
        take();
        mixed = mixed * 6364136223846793005u + me;
        own ^= mixed;
        give();
        uint32_t got = __atomic_fetch_add(&tickets[own % 8], (uint32_t)me, __ATOMIC_SEQ_CST);
        own = own * 31 + got;
        uint32_t expected = got;
        if (__atomic_compare_exchange_n(&turn, &expected, (uint32_t)own, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) own++;
        own += expected;
        atomic_fetch_xor(&sum, own);
        if (i % 500 == 0) {
            char *at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            CHECK(at != MAP_FAILED);
            own ^= (uintptr_t)at;
            at[own % 8192] = 1;
            CHECK(munmap(at, 8192) == 0);
        }
    }
    __atomic_fetch_add(&done, 1, __ATOMIC_SEQ_CST);
    futex(&done, FUTEX_WAKE_PRIVATE, 1);
    // Its end is ordered by nothing: it stays.
    for (;;) pause();
}

int main(void) {
    for (uintptr_t i = 1; i <= THREADS; i++) {
        pthread_t thread;
        CHECK0(pthread_create(&thread, NULL, work, (void *)i));
    }
    uint32_t seen;
    while ((seen = look(&done)) != THREADS) futex(&done, FUTEX_WAIT_PRIVATE, seen);
    printf("%llx %llx\n", (unsigned long long)mixed, (unsigned long long)atomic_load(&sum));
    return ok();
}
