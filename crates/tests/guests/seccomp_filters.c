// relive: link=pie,static threads=yes sketch=yes parallel=refused
// seccomp: strict mode and filters, their actions, several of them, over fork, exec and threads.
#include "check.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static long set(unsigned flags, unsigned nr, unsigned action) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
}

static void on_sigsys(int number, siginfo_t *info, void *context) {
    ucontext_t *at = context;
    CHECK(number == SIGSYS && info->si_code == 1 && info->si_syscall == SYS_getppid);
    CHECK(info->si_errno == 13 && info->si_arch == AUDIT_ARCH_X86_64);
    CHECK((uintptr_t)info->si_call_addr == (uintptr_t)at->uc_mcontext.gregs[REG_RIP]);
    CHECK(at->uc_mcontext.gregs[REG_RAX] == SYS_getppid);
    at->uc_mcontext.gregs[REG_RAX] = 77;
}

static int forked(void (*what)(void)) {
    pid_t child = fork();
    if (child == 0) {
        what();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static void fails(void) {
    CHECK(set(0, SYS_getppid, SECCOMP_RET_ERRNO | EIO) == 0);
    CHECK(syscall(SYS_getppid) == -1 && errno == EIO && prctl(PR_GET_SECCOMP) == 2);
    // The stricter of two counts, and the newer one's value.
    CHECK(set(0, SYS_getppid, SECCOMP_RET_ERRNO | EXDEV) == 0);
    CHECK(syscall(SYS_getppid) == -1 && errno == EXDEV);
    CHECK(set(0, SYS_getppid, SECCOMP_RET_ALLOW) == 0);
    CHECK(syscall(SYS_getppid) == -1 && errno == EXDEV);
    pid_t child = fork();
    if (child == 0) _exit(syscall(SYS_getppid) == -1 ? 6 : 1);
    expect_exit(child, 6);
}

static void traps(void) {
    handle(SIGSYS, on_sigsys, 0);
    CHECK(set(0, SYS_getppid, SECCOMP_RET_TRAP | 13) == 0);
    CHECK(syscall(SYS_getppid) == 77);
    CHECK(syscall(SYS_getppid) == 77);
}

static void killed(void) {
    CHECK(set(0, SYS_getppid, SECCOMP_RET_KILL_PROCESS) == 0);
    syscall(SYS_getppid);
}

static void strict_exit(void) {
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    (void)!write(1, "strict\n", 7);
    syscall(SYS_exit, 4);
}

static void strict_killed(void) {
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    syscall(SYS_getppid);
}

static void executes(void) {
    CHECK(set(0, SYS_getppid, SECCOMP_RET_ERRNO | EIO) == 0);
    execl("/proc/self/exe", "again", "again", (char *)NULL);
}

static int go;

static void *other(void *unused) {
    while (__atomic_fetch_add(&go, 0, __ATOMIC_SEQ_CST) == 0) usleep(100);
    CHECK(syscall(SYS_getppid) == -1 && errno == ENOMSG);
    return unused;
}

static void for_all(void) {
    pthread_t thread;
    CHECK0(pthread_create(&thread, NULL, other, NULL));
    CHECK(set(SECCOMP_FILTER_FLAG_TSYNC, SYS_getppid, SECCOMP_RET_ERRNO | ENOMSG) == 0);
    __atomic_fetch_add(&go, 1, __ATOMIC_SEQ_CST);
    CHECK0(pthread_join(thread, NULL));
}

int main(int argc, char **argv) {
    if (argc > 1) {
        (void)argv;
        return syscall(SYS_getppid) == -1 && errno == EIO ? 0 : 1;
    }
    CHECK(prctl(PR_GET_SECCOMP) == 0);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(forked(fails) == 0 && forked(traps) == 0 && forked(executes) == 0 && forked(for_all) == 0);
    int status = forked(killed);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
    status = forked(strict_killed);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    status = forked(strict_exit);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 4);
    // Filters that no kernel would run.
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 3), BPF_STMT(BPF_RET | BPF_K, 0)};
    struct sock_fprog program = {2, code};
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == -1 && errno == EINVAL);
    program.len = 0;
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == -1 && errno == EINVAL);
    CHECK(syscall(SYS_seccomp, 99, 0, NULL) == -1 && errno == EINVAL);
    unsigned action = SECCOMP_RET_ERRNO;
    CHECK(syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0);
    CHECK(prctl(PR_GET_SECCOMP) == 0);
    return ok();
}
