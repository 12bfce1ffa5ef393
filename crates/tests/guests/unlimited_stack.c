// relive: link=pie,static
// A program that lifts the limit on its stack and executes another. The kernel then lays its maps
// out from a far lower address. The new program and its child see the limit as it was set.
#include "check.h"
#include <sys/resource.h>
#include <sys/wait.h>

static rlim_t soft(void) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
    return limit.rlim_cur;
}

int main(int argc, char **argv) {
    int round = argc > 1 ? atoi(argv[1]) : 0;
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_STACK, &limit) == 0);
    if (round == 0) {
        limit.rlim_cur = limit.rlim_max;
        CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);
        execl("/proc/self/none", argv[0], (char *)NULL);
        CHECK(errno == ENOENT && soft() == limit.rlim_max);
        execl("/proc/self/exe", argv[0], "1", (char *)NULL);
        CHECK(0);
    }
    CHECK(soft() == limit.rlim_max);
    if (round == 2) return 7;
    pid_t child = fork();
    if (child == 0) {
        execl("/proc/self/exe", argv[0], "2", (char *)NULL);
        _exit(1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK(soft() == limit.rlim_max);
    return ok();
}
