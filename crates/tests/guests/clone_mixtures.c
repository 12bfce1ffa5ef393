// relive: link=pie,static
// clone and clone3 in their mixtures: exit signals, descriptors of children, ids, tables that
// are shared with a process of its own, a stack of one's own, and arguments that clone3 refuses.
#include "check.h"
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sched.h>
#include <sys/syscall.h>

static volatile int shared;
static char stack[1 << 16] __attribute__((aligned(16)));

static long clone3(struct clone_args *args, size_t size) { return syscall(SYS_clone3, args, size); }

// In line: a child on its parent's stack must not return from a function.
static inline __attribute__((always_inline)) long clone3_here(struct clone_args *args, size_t size) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_clone3), "D"(args), "S"(size) : "rcx", "r11", "memory");
    return result;
}

static int adds(void *arg) {
    shared += (int)(long)arg;
    return 9;
}

static int closes(void *arg) {
    close((int)(long)arg);
    return 3;
}

static int status_of(pid_t child) {
    int status = 0;
    CHECK(waitpid(child, &status, __WALL) == child);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

int main(void) {
    int pidfd = -1;
    pid_t parent_tid = 0;
    struct clone_args args = {.flags = CLONE_PIDFD | CLONE_PARENT_SETTID, .pidfd = (uintptr_t)&pidfd,
                              .parent_tid = (uintptr_t)&parent_tid, .exit_signal = SIGCHLD};
    long child = clone3(&args, sizeof args);
    if (child == 0) _exit(7);
    CHECK(child > 0 && parent_tid == child && pidfd >= 0);
    struct pollfd ended = {.fd = pidfd, .events = POLLIN};
    CHECK(poll(&ended, 1, -1) == 1);
    siginfo_t info;
    CHECK(waitid(P_PIDFD, (id_t)pidfd, &info, WEXITED) == 0 && info.si_status == 7);
    close(pidfd);

    // The old call has one argument for the descriptor and the parent's id.
    child = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, &pidfd, 0, 0);
    if (child == 0) _exit(4);
    CHECK(child > 0 && pidfd >= 0 && status_of((pid_t)child) == 4);
    close(pidfd);

    // Another exit signal than SIGCHLD: an ordinary wait does not see the child.
    signal(SIGUSR1, SIG_IGN);
    for (int sent = 0; sent <= SIGUSR1; sent += SIGUSR1) {
        child = syscall(SYS_clone, sent, 0, 0, 0, 0);
        if (child == 0) _exit(5);
        CHECK(child > 0 && waitpid((pid_t)child, NULL, 0) == -1 && errno == ECHILD);
        CHECK(status_of((pid_t)child) == 5);
    }

    // Processes that share some things and not others, on a stack of their own.
    static const struct { int flags, sees; } kinds[] = {
        {SIGCHLD, 0}, {CLONE_FILES | SIGCHLD, 0}, {CLONE_FS | SIGCHLD, 0}, {CLONE_IO | SIGCHLD, 0},
        {CLONE_UNTRACED | CLONE_SYSVSEM | SIGCHLD, 0}, {CLONE_VM | SIGCHLD, 1}, {CLONE_VM | CLONE_VFORK, 1},
        {CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | SIGCHLD, 1},
        {CLONE_VM | CLONE_VFORK | CLONE_FILES | SIGCHLD, 1},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        shared = 0;
        pid_t pid = clone(adds, stack + sizeof stack, kinds[i].flags, (void *)5);
        CHECK(pid > 0 && status_of(pid) == 9 && shared == 5 * kinds[i].sees);
    }

    // A table of descriptors in common.
    int flags[] = {CLONE_FILES | SIGCHLD, CLONE_FILES | CLONE_VM | CLONE_VFORK | SIGCHLD, SIGCHLD};
    for (int i = 0; i < 3; i++) {
        int fd = open("/dev/null", O_RDONLY);
        pid_t pid = clone(closes, stack + sizeof stack, flags[i], (void *)(long)fd);
        CHECK(pid > 0 && status_of(pid) == 3);
        CHECK((fcntl(fd, F_GETFD) == -1) == (i < 2));
        close(fd);
    }

    // Handlers that are not inherited, and the id that is cleared at the end.
    pid_t id = 1;
    signal(SIGUSR2, (void (*)(int))closes);
    struct clone_args clears = {.flags = CLONE_VM | CLONE_VFORK | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | 0x100000000ull,
                                .child_tid = (uintptr_t)&id, .exit_signal = SIGCHLD};
    child = clone3_here(&clears, sizeof clears);
    if (child == 0) _exit(signal(SIGUSR2, SIG_DFL) == SIG_DFL && id == getpid() ? 8 : 1);
    CHECK(child > 0 && status_of((pid_t)child) == 8 && id == 0);

    struct clone_args bad = {.flags = CLONE_SIGHAND, .exit_signal = SIGCHLD};
    CHECK(clone3(&bad, sizeof bad) == -1 && errno == EINVAL);
    bad = (struct clone_args){.flags = CLONE_THREAD};
    CHECK(clone3(&bad, sizeof bad) == -1 && errno == EINVAL);
    bad = (struct clone_args){.stack = (uintptr_t)stack, .exit_signal = SIGCHLD};
    CHECK(clone3(&bad, sizeof bad) == -1 && errno == EINVAL);
    CHECK(clone3(&args, 32) == -1 && errno == EINVAL);
    CHECK(clone3((void *)8, sizeof args) == -1 && errno == EFAULT);
    return ok();
}
