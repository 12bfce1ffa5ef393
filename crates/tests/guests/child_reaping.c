// relive: sketch=yes parallel=refused
// Children that reap themselves: SIGCHLD ignored, SA_NOCLDWAIT, rusage of children, and a
// child that outlives its parent's interest.
#include "check.h"
#include <sys/resource.h>

int main(void) {
    CHECK(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) _exit(i);
    }
    CHECK(waitpid(-1, NULL, 0) == -1 && errno == ECHILD); // waits for all, reports none
    struct sigaction action = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT};
    CHECK(sigaction(SIGCHLD, &action, NULL) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(1);
    CHECK(waitpid(child, NULL, 0) == -1 && errno == ECHILD);
    CHECK(signal(SIGCHLD, SIG_DFL) != SIG_ERR);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        volatile unsigned long work = 0;
        for (int i = 0; i < 100000; i++) work += (unsigned)i;
        _exit(2);
    }
    int status;
    struct rusage usage;
    CHECK(wait4(child, &status, 0, &usage) == child && WEXITSTATUS(status) == 2 && usage.ru_maxrss > 0);
    CHECK(getrusage(RUSAGE_CHILDREN, &usage) == 0 && usage.ru_maxrss > 0);
    CHECK(waitpid(-1, &status, 0x4000) == -1 && errno == EINVAL);
    return ok();
}
