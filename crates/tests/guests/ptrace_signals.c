// relive: modes=record,replay,verify
// A tracer sees the signals of its child, also those that it ignores; it lets them through, keeps
// them back, changes them and sends others. A fault is one of them.
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

static volatile int got[65];
static volatile int code_seen;

static void handler(int sig, siginfo_t *info, void *uc) {
    (void)uc;
    got[sig]++;
    code_seen = info->si_code;
}

static int child(void) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    int sigs[] = {SIGUSR1, SIGUSR2, SIGHUP, SIGSEGV};
    for (int i = 0; i < 4; i++)
        CHECK(sigaction(sigs[i], &action, NULL) == 0);
    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
    raise(SIGSTOP);
    raise(SIGUSR1); // let through
    CHECK(got[SIGUSR1] == 1);
    raise(SIGUSR1); // kept back
    CHECK(got[SIGUSR1] == 1);
    raise(SIGUSR1); // another in its place
    CHECK(got[SIGUSR1] == 1 && got[SIGUSR2] == 1);
    raise(SIGUSR1); // with another siginfo
    CHECK(got[SIGUSR1] == 2 && code_seen == -77);
    raise(SIGWINCH); // ignored
    // A fault, which the tracer repairs.
    long *bad = (long *)8, there = 42;
    long seen;
    __asm__ volatile("mov %2, %%rbx\n"
                     "mov (%%rax), %0"
                     : "=&r"(seen)
                     : "a"(bad), "r"(&there)
                     : "rbx", "memory");
    CHECK(seen == 42 && got[SIGSEGV] == 0);
    // A fault, which it lets through to the default action.
    signal(SIGSEGV, SIG_DFL);
    *(volatile int *)16 = 1;
    return 1;
}

static pid_t pid;
static int status;

static void next(int with, int sig) {
    CHECK(ptrace(PTRACE_CONT, pid, 0, with) == 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == sig);
}

int main(void) {
    siginfo_t info;
    pid = fork();
    if (pid == 0)
        _exit(child());
    CHECK(waitpid(pid, &status, 0) == pid && WSTOPSIG(status) == SIGSTOP);
    next(0, SIGUSR1);
    CHECK(ptrace(PTRACE_GETSIGINFO, pid, 0, &info) == 0);
    CHECK(info.si_signo == SIGUSR1 && info.si_code == SI_TKILL && info.si_pid == pid);
    next(SIGUSR1, SIGUSR1);
    next(0, SIGUSR1);
    next(SIGUSR2, SIGUSR1);
    info.si_code = -77;
    CHECK(ptrace(PTRACE_SETSIGINFO, pid, 0, &info) == 0);
    next(SIGUSR1, SIGWINCH);
    next(SIGWINCH, SIGSEGV);
    CHECK(ptrace(PTRACE_GETSIGINFO, pid, 0, &info) == 0);
    CHECK(info.si_code == SEGV_MAPERR && info.si_addr == (void *)8);
    struct user_regs_struct regs;
    CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0 && regs.rax == 8);
    regs.rax = regs.rbx;
    CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
    next(0, SIGSEGV);
    CHECK(ptrace(PTRACE_GETSIGINFO, pid, 0, &info) == 0 && info.si_addr == (void *)16);
    CHECK(ptrace(PTRACE_CONT, pid, 0, SIGSEGV) == 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    return ok();
}
