// relive:
// A leak checker starts a process in its own memory that no other may trace, and that traces
// it: first it waits for its parent, which must not wait for it in turn. Where tracing is not
// possible the process is refused.
#include "check.h"
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static char stack[64 << 10] __attribute__((aligned(16)));
static int ready;

static int tracer(void *arg) {
    while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, &ready, FUTEX_WAIT, 0, NULL, NULL, 0);
    *(int *)arg = 7;
    return 3;
}

int main(void) {
    int seen = 0;
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_UNTRACED;
    pid_t child = clone(tracer, stack + sizeof stack, flags, &seen);
    if (child < 0) {
        CHECK(errno == EPERM);
    } else {
        __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
        syscall(SYS_futex, &ready, FUTEX_WAKE, 1, NULL, NULL, 0);
        int status;
        CHECK(waitpid(child, &status, __WALL) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3 && seen == 7);
    }
    return ok();
}
