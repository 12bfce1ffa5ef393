// relive: timeout=60
// Memory shared between parent and child: anonymous, by file, by memfd; each takes turns.
#include "check.h"
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>

static void take_turns(volatile int *cell) {
    *cell = 0;
    pid_t child = fork();
    CHECK(child >= 0);
    int me = child == 0;
    for (int i = 0; i < 50; i++) {
        while (__atomic_load_n(cell, __ATOMIC_SEQ_CST) % 2 != me) sched_yield();
        __atomic_fetch_add(cell, 1, __ATOMIC_SEQ_CST);
    }
    if (child == 0) _exit(0);
    expect_exit(child, 0);
    CHECK(*cell == 100);
}

int main(void) {
    int *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    take_turns(memory);
    int fds[] = {open("shared", O_RDWR | O_CREAT | O_TRUNC, 0600), memfd_create("shared", 0)};
    for (int i = 0; i < 2; i++) {
        CHECK(fds[i] >= 0 && ftruncate(fds[i], 4096) == 0);
        int *mapped = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);
        CHECK(mapped != MAP_FAILED);
        take_turns(mapped);
        int value = 0;
        CHECK(pread(fds[i], &value, 4, 0) == 4 && value == 100);
    }
    return ok();
}
