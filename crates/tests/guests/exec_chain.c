// relive: link=pie,static exit=123 expect="last\n" sketch=yes
// A process that becomes itself ten times over, keeping pid, descriptors, folder, personality,
// mask and pending signals, and losing handlers.
#include "check.h"
#include <sys/personality.h>
#include <sys/stat.h>

static void lost(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    (void)context;
}

int main(int argc, char **argv) {
    int round = argc > 1 ? atoi(argv[1]) : 0;
    sigset_t set, now, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    if (round == 0) {
        CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0 && raise(SIGUSR1) == 0);
        CHECK(signal(SIGUSR2, SIG_IGN) != SIG_ERR && dup2(1, 100) == 100);
        CHECK(mkdir("below", 0700) == 0 && chdir("below") == 0);
        static char pid[16];
        sprintf(pid, "%d", (int)getpid());
        CHECK(setenv("FIRST_PID", pid, 1) == 0);
        CHECK(personality(ADDR_NO_RANDOMIZE) >= 0);
    } else {
        struct sigaction action;
        char folder[4096];
        CHECK(atoi(getenv("FIRST_PID")) == getpid() && personality(0xffffffff) == ADDR_NO_RANDOMIZE);
        CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGUSR1));
        CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR1));
        CHECK(sigaction(SIGUSR2, NULL, &action) == 0 && action.sa_handler == SIG_IGN);
        CHECK(sigaction(SIGTERM, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
        CHECK(getcwd(folder, sizeof folder) && strcmp(strrchr(folder, '/'), "/below") == 0);
    }
    if (round == 10) {
        CHECK(write(100, "last\n", 5) == 5);
        return 123;
    }
    handle(SIGTERM, lost, 0);
    char next[16];
    sprintf(next, "%d", round + 1);
    execl("/proc/self/exe", argv[0], next, (char *)NULL);
    CHECK(0);
}
