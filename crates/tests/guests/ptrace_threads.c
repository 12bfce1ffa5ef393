// relive: modes=record,replay,verify threads=yes coherence=no
// Each thread is a tracee of its own: one is stopped and changed while the others run, and the end of
// each is told.
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>

#define THREADS 3
static volatile long counts[THREADS];
static volatile long added;

static void *work(void *arg) {
    long i = (long)arg;
    long extra = 0;
    for (int k = 0; k < 20; k++) {
        __atomic_add_fetch(&counts[i], 1, __ATOMIC_SEQ_CST);
        syscall(SYS_gettid);
    }
    // The tracer adds to rax here.
    __asm__ volatile("xor %%eax, %%eax\n"
                     "int3\n"
                     "mov %%rax, %0"
                     : "=r"(extra)::"rax");
    __atomic_add_fetch(&added, extra, __ATOMIC_SEQ_CST);
    return NULL;
}

static int child(void) {
    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
    raise(SIGSTOP);
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++)
        CHECK(pthread_create(&t[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(t[i], NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(counts[i] == 20);
    CHECK(added == 1 + 2 + 3);
    return 8;
}

int main(void) {
    int status, traps = 0, births = 0, ends = 0, calls = 0;
    pid_t first = fork();
    if (first == 0)
        _exit(child());
    CHECK(waitpid(first, &status, 0) == first && WSTOPSIG(status) == SIGSTOP);
    CHECK(ptrace(PTRACE_SETOPTIONS, first, 0, PTRACE_O_TRACECLONE | PTRACE_O_TRACESYSGOOD) == 0);
    CHECK(ptrace(PTRACE_SYSCALL, first, 0, 0) == 0);
    for (;;) {
        pid_t pid = waitpid(-1, &status, __WALL);
        CHECK(pid > 0);
        if (WIFEXITED(status)) {
            ends++;
            if (pid == first)
                break;
            continue;
        }
        CHECK(WIFSTOPPED(status));
        int sig = WSTOPSIG(status);
        if (sig == (SIGTRAP | 0x80)) {
            calls++;
        } else if (status >> 16) {
            CHECK(status >> 16 == PTRACE_EVENT_CLONE);
        } else if (sig == SIGTRAP) {
            struct user_regs_struct regs;
            CHECK(pid != first);
            CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0 && regs.rax == 0);
            regs.rax = ++traps;
            CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
        } else {
            CHECK(sig == SIGSTOP && pid != first);
            births++;
        }
        CHECK(ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0);
    }
    CHECK(WEXITSTATUS(status) == 8);
    CHECK(births == THREADS && traps == THREADS && ends == THREADS + 1 && calls > 20 * THREADS);
    return ok();
}
