// relive: threads=yes
// futex(2) itself: wait and wake with values, bitsets, requeue, time-outs.
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

static uint32_t word, other;
static int asleep;

static long futex(uint32_t *at, int op, uint32_t value, const void *timeout, uint32_t *at2, uint32_t value3) {
    return syscall(SYS_futex, at, op, value, timeout, at2, value3);
}

static void *sleeper(void *arg) {
    (void)arg;
    __atomic_fetch_add(&asleep, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == 0) futex(&word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    return NULL;
}

int main(void) {
    struct timespec short_time = {0, 1000000};
    CHECK(futex(&word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0) == -1 && errno == EAGAIN);
    CHECK(futex(&word, FUTEX_WAIT_PRIVATE, 0, &short_time, NULL, 0) == -1 && errno == ETIMEDOUT);
    CHECK(futex(&word, FUTEX_WAKE_PRIVATE, 100, NULL, NULL, 0) == 0);
    CHECK(futex((uint32_t *)((char *)&word + 1), FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0) == -1 && errno == EINVAL);
    CHECK(futex(&word, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, NULL, 0) == -1 && errno == EINVAL);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK0(pthread_create(&threads[i], NULL, sleeper, NULL));
    while (__atomic_load_n(&asleep, __ATOMIC_SEQ_CST) < 4) sched_yield();
    // Some to the other word, then wake both until all are gone.
    long moved = futex(&word, FUTEX_REQUEUE_PRIVATE, 1, (void *)1L, &other, 0);
    CHECK(moved >= 0 && moved <= 2);
    __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
    futex(&word, FUTEX_WAKE_PRIVATE, 100, NULL, NULL, 0);
    futex(&other, FUTEX_WAKE_BITSET_PRIVATE, 100, NULL, NULL, FUTEX_BITSET_MATCH_ANY);
    for (int i = 0; i < 4; i++) CHECK0(pthread_join(threads[i], NULL));
    return ok();
}
