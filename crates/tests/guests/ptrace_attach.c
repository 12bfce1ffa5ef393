// relive: modes=record,replay,verify
// A tracer attaches to processes that run: by PTRACE_ATTACH, and by PTRACE_SEIZE with
// PTRACE_INTERRUPT and PTRACE_LISTEN; it detaches, and they go on.
#define _GNU_SOURCE
#include "check.h"
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

static int pipes[2];
static volatile long turns;

static int works(void) {
    char byte;
    close(pipes[1]);
    // Until the tracer clears the word.
    turns = 1;
    while (turns)
        __asm__ volatile("" ::: "memory");
    CHECK(read(pipes[0], &byte, 1) == 1);
    return byte;
}

static int status;

static void attached(pid_t pid) {
    CHECK(ptrace(PTRACE_ATTACH, pid, 0, 0) == 0);
    CHECK(waitpid(pid, &status, __WALL) == pid);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP && status >> 16 == 0);
    CHECK(ptrace(PTRACE_ATTACH, pid, 0, 0) == -1 && errno == EPERM);
}

static void clear(pid_t pid) {
    for (;;) {
        errno = 0;
        long seen = ptrace(PTRACE_PEEKDATA, pid, &turns, 0);
        CHECK(errno == 0);
        if (seen == 1)
            break;
        // It has not come so far.
        CHECK(ptrace(PTRACE_SINGLESTEP, pid, 0, 0) == 0);
        CHECK(waitpid(pid, &status, 0) == pid && WSTOPSIG(status) == SIGTRAP);
    }
    CHECK(ptrace(PTRACE_POKEDATA, pid, &turns, 0) == 0);
}

int main(void) {
    CHECK(ptrace(PTRACE_CONT, getppid(), 0, 0) == -1 && errno == ESRCH);
    CHECK(ptrace(PTRACE_ATTACH, getpid(), 0, 0) == -1 && errno == EPERM);
    CHECK(pipe(pipes) == 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(works());
    attached(pid);
    clear(pid);
    CHECK(ptrace(PTRACE_DETACH, pid, 0, 0) == 0);
    CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == -1 && errno == ESRCH);
    CHECK(write(pipes[1], "\5", 1) == 1);
    expect_exit(pid, 5);

    pid = fork();
    if (pid == 0)
        _exit(works());
    CHECK(ptrace(PTRACE_SEIZE, pid, 0, PTRACE_O_TRACESYSGOOD) == 0);
    CHECK(ptrace(PTRACE_PEEKDATA, pid, &turns, 0) == -1 && errno == ESRCH);
    CHECK(waitpid(pid, &status, WNOHANG) == 0);
    CHECK(ptrace(PTRACE_INTERRUPT, pid, 0, 0) == 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(status == (PTRACE_EVENT_STOP << 16 | SIGTRAP << 8 | 0x7f));
    siginfo_t info;
    CHECK(ptrace(PTRACE_GETSIGINFO, pid, 0, &info) == 0);
    CHECK(info.si_code == (PTRACE_EVENT_STOP << 8 | SIGTRAP));
    clear(pid);
    CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    // The stop of the whole process.
    CHECK(kill(pid, SIGSTOP) == 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(status == (SIGSTOP << 8 | 0x7f));
    CHECK(ptrace(PTRACE_CONT, pid, 0, SIGSTOP) == 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(status == (PTRACE_EVENT_STOP << 16 | SIGSTOP << 8 | 0x7f));
    CHECK(ptrace(PTRACE_LISTEN, pid, 0, 0) == 0);
    CHECK(waitpid(pid, &status, WNOHANG) == 0);
    CHECK(kill(pid, SIGCONT) == 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(status == (PTRACE_EVENT_STOP << 16 | SIGTRAP << 8 | 0x7f));
    CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(status == (SIGCONT << 8 | 0x7f));
    CHECK(ptrace(PTRACE_CONT, pid, 0, 0) == 0);
    CHECK(write(pipes[1], "\6", 1) == 1);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 6);
    return ok();
}
