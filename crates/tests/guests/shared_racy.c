// relive: threads=yes sketch=yes parallel=refused output=free expect="total "
// Four processes add to one counter in shared memory without a lock: increments get lost. How
// many depends on the schedule alone, so a replay must print its recording's total.
#include "check.h"
#include <sched.h>
#include <sys/mman.h>

enum { PROCESSES = 4, ROUNDS = 150000 };

struct shared {
    volatile long counter;
    int ready;
};

static void add(struct shared *s) {
    __atomic_fetch_add(&s->ready, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&s->ready, __ATOMIC_SEQ_CST) < PROCESSES) sched_yield();
    for (int i = 0; i < ROUNDS; i++) {
        // Load, add and store, as three instructions.
        long value = s->counter;
        __asm__ volatile("" : "+r"(value));
        s->counter = value + 1;
    }
}

int main(void) {
    struct shared *s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(s != MAP_FAILED);
    pid_t children[PROCESSES];
    for (int i = 1; i < PROCESSES; i++) {
        children[i] = fork();
        CHECK(children[i] >= 0);
        if (children[i] == 0) {
            add(s);
            _exit(0);
        }
    }
    add(s);
    for (int i = 1; i < PROCESSES; i++) expect_exit(children[i], 0);
    CHECK(s->counter > 0 && s->counter <= PROCESSES * ROUNDS);
    printf("total %ld of %d\n", s->counter, PROCESSES * ROUNDS);
    return ok();
}
