// relive: modes=record,replay,verify threads=yes coherence=no
// A process in the memory of its parent traces all threads of that one, as a leak checker does: it
// waits until its parent is ready, stops the threads one by one, reads their registers, and lets
// them go on. It has ids, signal actions and an end of its own.
#include "check.h"
#include <elf.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>

enum { SPINNING = 2, MARK = 0x51515151 };

static char stack[256 << 10] __attribute__((aligned(16)));
static int ready, done, spin_end, started;
static volatile long turns[SPINNING];
static pid_t spinning[SPINNING], sleeping, parent;
static int asleep_word;

static void wait_for(int *word) {
    while (!__atomic_load_n(word, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static void wake(int *word) {
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, word, FUTEX_WAKE, 1 << 20, NULL, NULL, 0);
}

static void *spins(void *arg) {
    long i = (long)arg;
    spinning[i] = gettid();
    __atomic_fetch_add(&started, 1, __ATOMIC_SEQ_CST);
    // The mark stays in a register.
    register long mark __asm__("r12") = MARK + i;
    while (!__atomic_load_n(&spin_end, __ATOMIC_ACQUIRE))
        __asm__ volatile("incq %0" : "+m"(turns[i]), "+r"(mark));
    return NULL;
}

static void *sleeps(void *arg) {
    sleeping = gettid();
    __atomic_fetch_add(&started, 1, __ATOMIC_SEQ_CST);
    wait_for(&asleep_word);
    return arg;
}

static struct user_regs_struct registers(pid_t tid) {
    struct user_regs_struct regs;
    struct iovec all = {&regs, sizeof regs};
    CHECK(ptrace(PTRACE_GETREGSET, tid, (void *)NT_PRSTATUS, &all) == 0);
    CHECK(all.iov_len == sizeof regs);
    return regs;
}

static void stop(pid_t tid) {
    int status;
    CHECK(ptrace(PTRACE_ATTACH, tid, 0, 0) == 0);
    CHECK(waitpid(tid, &status, __WALL) == tid);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
}

// The threads of the parent.
static int listed(pid_t *tids, int room) {
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/task", parent);
    int fd = open(name, O_RDONLY | O_DIRECTORY), n = 0;
    char buffer[4096];
    long got;
    CHECK(fd >= 0);
    while ((got = syscall(SYS_getdents64, fd, buffer, sizeof buffer)) > 0)
        for (long at = 0; at < got; at += *(unsigned short *)(buffer + at + 16)) {
            int tid = atoi(buffer + at + 19);
            CHECK(tid == 0 || n < room);
            if (tid != 0)
                tids[n++] = tid;
        }
    CHECK(got == 0 && close(fd) == 0);
    return n;
}

static void handler(int number) { (void)number; }

static int tracer(void *arg) {
    int how = *(int *)arg;
    CHECK(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0);
    CHECK(getppid() == parent && getpid() != parent && getpid() == gettid());
    wait_for(&ready);
    struct sigaction act = {.sa_handler = handler}, old;
    CHECK(sigaction(SIGUSR1, &act, &old) == 0 && old.sa_handler == SIG_IGN);
    if (how == 1)
        syscall(SYS_exit_group, 41);
    if (how == 2)
        syscall(SYS_kill, getpid(), SIGTERM);
    pid_t tids[16];
    int n = listed(tids, 16), seen = 0;
    CHECK(n == SPINNING + 2);
    CHECK(ptrace(PTRACE_ATTACH, getpid(), 0, 0) == -1 && errno == EPERM);
    CHECK(ptrace(PTRACE_CONT, tids[0], 0, 0) == -1 && errno == ESRCH);
    for (int i = 0; i < n; i++)
        stop(tids[i]);
    for (int i = 0; i < n; i++) {
        struct user_regs_struct regs = registers(tids[i]);
        CHECK(regs.rsp != 0 && regs.rip != 0);
        for (long k = 0; k < SPINNING; k++)
            if (tids[i] == spinning[k])
                seen += regs.r12 == (unsigned long)(MARK + k);
        seen += tids[i] == sleeping || tids[i] == parent;
    }
    CHECK(seen == n);
    // They stand still.
    long before[SPINNING] = {turns[0], turns[1]};
    for (int i = 0; i < 100; i++)
        sched_yield();
    CHECK(turns[0] == before[0] && turns[1] == before[1]);
    // One that is let go can be stopped again at once.
    for (int i = 0; i < n; i++) {
        CHECK(ptrace(PTRACE_DETACH, tids[i], 0, 0) == 0);
        stop(tids[i]);
    }
    if (how == 3)
        // Without a word to them.
        return 43;
    for (int i = 0; i < n; i++)
        CHECK(ptrace(PTRACE_DETACH, tids[i], 0, 0) == 0);
    __atomic_store_n(&done, 1, __ATOMIC_RELEASE);
    return 40;
}

static int traced_by(int how) {
    ready = done = 0;
    int status, flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_UNTRACED;
    pid_t child = clone(tracer, stack + sizeof stack, flags, &how);
    CHECK(child > 0);
    prctl(PR_SET_PTRACER, child, 0, 0, 0);
    wake(&ready);
    // `errno` is one for both: until the other is done this one makes no call that may fail.
    while (how == 0 && !__atomic_load_n(&done, __ATOMIC_ACQUIRE))
        sched_yield();
    pid_t got;
    while ((got = waitpid(child, &status, __WALL)) == -1 && errno == EINTR) {
    }
    CHECK(got == child && waitpid(child, &status, __WALL) == -1 && errno == ECHILD);
    struct sigaction kept;
    CHECK(sigaction(SIGUSR1, NULL, &kept) == 0 && kept.sa_handler == SIG_IGN);
    return status;
}

int main(void) {
    pthread_t threads[SPINNING + 1];
    parent = getpid();
    signal(SIGUSR1, SIG_IGN);
    for (long i = 0; i < SPINNING; i++)
        CHECK0(pthread_create(&threads[i], NULL, spins, (void *)i));
    CHECK0(pthread_create(&threads[SPINNING], NULL, sleeps, NULL));
    while (__atomic_load_n(&started, __ATOMIC_SEQ_CST) != SPINNING + 1)
        sched_yield();
    int status = traced_by(0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 40);
    status = traced_by(1);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 41);
    status = traced_by(2);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    status = traced_by(3);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 43);
    // The threads go on.
    long before = turns[0];
    while (turns[0] == before)
        sched_yield();
    __atomic_store_n(&spin_end, 1, __ATOMIC_RELEASE);
    wake(&asleep_word);
    for (int i = 0; i <= SPINNING; i++)
        CHECK0(pthread_join(threads[i], NULL));
    return ok();
}
