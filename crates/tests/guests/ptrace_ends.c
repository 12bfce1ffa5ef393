// relive: modes=record,replay,verify
// A tracer ends before its tracees: they go on, or are killed where it has asked for that. A tracee
// is killed, and its tracer is told.
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

static int status;

static pid_t stopped_child(void) {
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
        raise(SIGSTOP);
        _exit(9);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WSTOPSIG(status) == SIGSTOP);
    return pid;
}

static int tracer(int out, long options) {
    pid_t pid = stopped_child();
    CHECK(ptrace(PTRACE_SETOPTIONS, pid, 0, options) == 0);
    CHECK(write(out, &pid, sizeof pid) == sizeof pid);
    return 4;
}

static int ends(long options) {
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    pid_t middle = fork();
    if (middle == 0)
        _exit(tracer(pipes[1], options));
    pid_t pid;
    CHECK(read(pipes[0], &pid, sizeof pid) == sizeof pid);
    expect_exit(middle, 4);
    CHECK(waitpid(pid, &status, 0) == pid);
    close(pipes[0]);
    close(pipes[1]);
    return status;
}

int main(void) {
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
    status = ends(0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 9);
    status = ends(PTRACE_O_EXITKILL);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

    pid_t pid = stopped_child();
    CHECK(kill(pid, SIGKILL) == 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    pid = stopped_child();
    CHECK(ptrace(PTRACE_KILL, pid, 0, 0) == 0);
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    return ok();
}
