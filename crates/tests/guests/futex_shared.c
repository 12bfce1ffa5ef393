// relive:
// futex(2) on a word in memory that a parent and its child share.
#include "check.h"
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static long futex(uint32_t *at, int op, uint32_t value) {
    return syscall(SYS_futex, at, op, value, NULL, NULL, 0);
}

int main(void) {
    uint32_t *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        while (__atomic_load_n(shared, __ATOMIC_SEQ_CST) == 0) futex(shared, FUTEX_WAIT, 0);
        _exit(0);
    }
    __atomic_store_n(shared, 1, __ATOMIC_SEQ_CST);
    futex(shared, FUTEX_WAKE, 1);
    expect_exit(child, 0);
    return ok();
}
