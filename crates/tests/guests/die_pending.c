// relive: link=pie sketch=yes parallel=refused
// A process dies of a signal while others are blocked and pending: of that signal, and it neither stops nor dies of another one.
#include "check.h"
#include <signal.h>
#include <sys/wait.h>

static int dies(int pending, int of) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, pending);
        // A shell's background jobs ignore some.
        signal(pending, SIG_DFL);
        signal(of, SIG_DFL);
        sigprocmask(SIG_BLOCK, &set, NULL);
        raise(pending);
        raise(of);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -1;
}

int main(void) {
    const int pairs[][2] = {
        {SIGUSR1, SIGTERM}, {SIGTSTP, SIGTERM}, {SIGTERM, SIGUSR2}, {SIGCHLD, SIGINT}, {SIGRTMIN, SIGALRM}};
    for (unsigned i = 0; i < sizeof pairs / sizeof *pairs; i++) CHECK(dies(pairs[i][0], pairs[i][1]) == pairs[i][1]);
    puts("ok");
    return 0;
}
