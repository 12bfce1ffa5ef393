// relive: threads=yes sketch=yes parallel=refused link=pie,static
// clone itself, without the thread library: shared memory on an own stack, the clear-tid
// futex, a clone that is a fork, clone3, and refused flag combinations.
#include "check.h"
#include <linux/futex.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/syscall.h>

static int shared;
static volatile pid_t tid_word = -1;
static char stack[1 << 16] __attribute__((aligned(16)));

static int child_main(void *arg) {
    // No library call here: this thread has its parent's thread pointer.
    __atomic_store_n((int *)arg, 42, __ATOMIC_SEQ_CST);
    return 0;
}

int main(void) {
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    for (int i = 0; i < 20; i++) {
        shared = 0;
        pid_t parent_tid = 0;
        int tid = clone(child_main, stack + sizeof stack, flags | CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID,
                        &shared, &parent_tid, NULL, &tid_word);
        CHECK(tid > 0 && parent_tid == tid);
        pid_t now;
        while ((now = __atomic_load_n(&tid_word, __ATOMIC_SEQ_CST)) != 0)
            syscall(SYS_futex, &tid_word, FUTEX_WAIT, now, NULL, NULL, 0);
        CHECK(shared == 42);
        tid_word = -1;
    }
    // Shared memory but a process of its own, waited for by its signal. Two processes that
    // run on one memory side by side are a documented limit of Relive: EINVAL.
    shared = 0;
    int pid = clone(child_main, stack + sizeof stack, CLONE_VM | SIGCHLD, &shared);
    CHECK(pid > 0 || errno == EINVAL);
    if (pid > 0) expect_exit(pid, 0);
    CHECK(shared == (pid > 0 ? 42 : 0));
    // The same with the parent asleep until the child is gone, as vfork does.
    shared = 0;
    pid = clone(child_main, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &shared);
    CHECK(pid > 0);
    CHECK(shared == 42);
    expect_exit(pid, 0);
    struct clone_args args;
    memset(&args, 0, sizeof args);
    args.exit_signal = SIGCHLD;
    long forked = syscall(SYS_clone3, &args, sizeof args);
    if (forked == 0) _exit(6);
    CHECK(forked > 0 || errno == ENOSYS);
    if (forked > 0) expect_exit((pid_t)forked, 6);
    CHECK(syscall(SYS_clone, CLONE_THREAD | SIGCHLD, 0, 0, 0, 0) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_clone, CLONE_SIGHAND | SIGCHLD, 0, 0, 0, 0) == -1 && errno == EINVAL);
    return ok();
}
