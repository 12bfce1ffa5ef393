// relive: modes=record,replay,verify
// A tracer is told of forks, vforks, threads, programs and ends of its tracees, follows the new
// ones, and learns of the ends of those that are not its children.
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

static void *thread(void *arg) {
    return arg;
}

static int child(char *self) {
    CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
    raise(SIGSTOP);
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(21);
    CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 21);
    pid = vfork();
    if (pid == 0) {
        execl(self, self, "program", NULL);
        _exit(1);
    }
    CHECK(waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 23);
    pthread_t t;
    CHECK(pthread_create(&t, NULL, thread, NULL) == 0);
    CHECK(pthread_join(t, NULL) == 0);
    return 24;
}

static int forks, vforks, clones, execs, exits, dones, ends, births;
static pid_t first;

int main(int argc, char **argv) {
    if (argc > 1)
        return 23;
    int status;
    first = fork();
    if (first == 0)
        _exit(child(argv[0]));
    CHECK(waitpid(first, &status, 0) == first && WSTOPSIG(status) == SIGSTOP);
    long options = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                   PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT | PTRACE_O_TRACEVFORKDONE;
    CHECK(ptrace(PTRACE_SETOPTIONS, first, 0, options) == 0);
    CHECK(ptrace(PTRACE_CONT, first, 0, 0) == 0);
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
        unsigned long message = 0;
        int event = status >> 16, sig = 0;
        if (event) {
            CHECK(WSTOPSIG(status) == SIGTRAP);
            CHECK(ptrace(PTRACE_GETEVENTMSG, pid, 0, &message) == 0);
        }
        switch (event) {
        case PTRACE_EVENT_FORK:
            forks++;
            break;
        case PTRACE_EVENT_VFORK:
            vforks++;
            break;
        case PTRACE_EVENT_CLONE:
            clones++;
            break;
        case PTRACE_EVENT_VFORK_DONE:
            dones++;
            break;
        case PTRACE_EVENT_EXEC:
            CHECK(message == (unsigned long)pid);
            execs++;
            break;
        case PTRACE_EVENT_EXIT: {
            int code = message >> 8;
            CHECK(code == 0 || code == 21 || code == 23 || code == 24);
            exits++;
            break;
        }
        default:
            if (WSTOPSIG(status) == SIGSTOP)
                births++;
            else
                sig = WSTOPSIG(status);
        }
        if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK ||
            event == PTRACE_EVENT_CLONE)
            CHECK(message > 1 && message != (unsigned long)pid);
        CHECK(ptrace(PTRACE_CONT, pid, 0, sig) == 0);
    }
    CHECK(WEXITSTATUS(status) == 24);
    CHECK(forks == 1 && vforks == 1 && clones == 1 && dones == 1 && execs == 1);
    CHECK(births == 3 && exits == 4 && ends == 4);
    CHECK(waitpid(-1, &status, __WALL) == -1 && errno == ECHILD);
    return ok();
}
