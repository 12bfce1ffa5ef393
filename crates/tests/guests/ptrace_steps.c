// relive: modes=record,replay,verify
// A tracer puts a breakpoint into the code of its child, finds it there, steps over the
// instruction behind it, and counts the single steps of a loop.
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

static pid_t pid;
static int status;
static struct user_regs_struct regs;

__attribute__((noinline)) static long twice(long x) {
    __asm__ volatile("" ::: "memory");
    return 2 * x;
}

extern char loop_begin[], loop_end[];

static int child(void) {
    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
    raise(SIGSTOP);
    long sum = 0;
    for (long i = 0; i < 3; i++)
        sum += twice(i);
    CHECK(sum == 6);
    __asm__ volatile("mov $10, %%ecx\n"
                     ".globl loop_begin, loop_end\n"
                     "loop_begin:\n"
                     "dec %%ecx\n"
                     "jnz loop_begin\n"
                     "loop_end:\n"
                     "nop\n" ::
                         : "ecx");
    return 5;
}

static void stop(int sig) {
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == sig);
    CHECK(ptrace(PTRACE_GETREGS, pid, 0, &regs) == 0);
}

static void step(void) {
    siginfo_t info;
    CHECK(ptrace(PTRACE_SINGLESTEP, pid, 0, 0) == 0);
    stop(SIGTRAP);
    CHECK(ptrace(PTRACE_GETSIGINFO, pid, 0, &info) == 0);
    CHECK(info.si_signo == SIGTRAP && info.si_code == TRAP_TRACE);
    CHECK((unsigned long)info.si_addr == regs.rip);
}

static long put(void *at, long byte) {
    errno = 0;
    long word = ptrace(PTRACE_PEEKTEXT, pid, at, 0);
    CHECK(errno == 0);
    CHECK(ptrace(PTRACE_POKETEXT, pid, at, (word & ~0xffl) | byte) == 0);
    return word & 0xff;
}

int main(void) {
    pid = fork();
    if (pid == 0)
        _exit(child());
    stop(SIGSTOP);
    long old = put(twice, 0xcc);
    for (long i = 0; i < 3; i++) {
        siginfo_t info;
        CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
        stop(SIGTRAP);
        CHECK(ptrace(PTRACE_GETSIGINFO, pid, 0, &info) == 0 && info.si_code == SI_KERNEL);
        CHECK(regs.rip == (unsigned long)twice + 1 && regs.rdi == (unsigned long)i);
        regs.rip--;
        CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
        CHECK(put(twice, old) == 0xcc);
        step();
        CHECK(regs.rip > (unsigned long)twice && regs.rip < (unsigned long)twice + 16);
        put(twice, 0xcc);
    }
    put(twice, old);
    old = put(loop_begin, 0xcc);
    CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    stop(SIGTRAP);
    regs.rip--;
    CHECK(regs.rip == (unsigned long)loop_begin && (regs.rcx & 0xffffffff) == 10);
    CHECK(ptrace(PTRACE_SETREGS, pid, 0, &regs) == 0);
    put(loop_begin, old);
    int steps = 0;
    while (regs.rip != (unsigned long)loop_end) {
        step();
        steps++;
    }
    CHECK(steps == 20);
    CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 5);
    return ok();
}
