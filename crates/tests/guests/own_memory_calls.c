// relive: link=pie threads=yes sketch=yes parallel=refused
// Calls on the caller's own memory and namespaces: process_vm_writev, futex_waitv, unshare, and
// the page of calls that very old programs use.
#include "check.h"
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

struct waiter {
    uint64_t value, address;
    uint32_t flags, reserved;
};

static uint32_t words[2];

static void *wakes(void *unused) {
    usleep(20000);
    __atomic_store_n(&words[1], 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &words[1], 1 | 128, 1, NULL, NULL, 0);
    return unused;
}

int main(void) {
    char from[8] = "abcdefg", to[8] = "", more[4] = "";
    struct iovec local = {from, 8}, remote[2] = {{to, 5}, {more, 3}};
    CHECK(process_vm_writev(getpid(), &local, 1, remote, 2, 0) == 8);
    CHECK(memcmp(to, "abcde", 5) == 0 && memcmp(more, "fg", 3) == 0);

    struct waiter waiters[2] = {{0, (uintptr_t)&words[0], 2 | 128, 0}, {0, (uintptr_t)&words[1], 2 | 128, 0}};
    struct timespec past = {0, 0};
    long result = syscall(449, waiters, 2, 0, &past, CLOCK_MONOTONIC);
    CHECK(result == -1 && (errno == ETIMEDOUT || errno == ENOSYS));
    if (errno == ETIMEDOUT) {
        pthread_t thread;
        CHECK0(pthread_create(&thread, NULL, wakes, NULL));
        do result = syscall(449, waiters, 2, 0, NULL, 0);
        while (result == -1 && errno == EINTR);
        CHECK(result == 1 || (result == -1 && errno == EAGAIN));
        CHECK0(pthread_join(thread, NULL));
        CHECK(syscall(449, waiters, 2, 0, NULL, 0) == -1 && errno == EAGAIN);
    }
    CHECK(unshare(0) == 0 && unshare(CLONE_FILES) == 0 && unshare(CLONE_FS) == 0);
    CHECK(unshare(1) == -1 && errno == EINVAL);
    CHECK(prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0);
    pid_t child = fork();
    if (child == 0) _exit(((long (*)(long *))0xffffffffff600400)(NULL) > 1000000 ? 6 : 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    // A kernel without that page ends the child.
    CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 6);
    return ok();
}
