// The part that all C and C++ guests share: a check that is never compiled out, and the last line.
#ifndef CHECK_H
#define CHECK_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

// Ends the process with status 99 and says where and with which errno.
#define CHECK(condition)                                                                 \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            dprintf(2, "%s:%d: not so: %s (errno %d)\n", __FILE_NAME__, __LINE__,        \
                    #condition, errno);                                                  \
            _exit(99);                                                                   \
        }                                                                                \
    } while (0)

// For calls that return 0 or an error number (pthreads).
#define CHECK0(call) CHECK((errno = (call)) == 0)

__attribute__((unused)) static int ok(void) {
    puts("ok");
    return 0;
}

// Installs a three-argument handler.
__attribute__((unused)) static void handle(int number, void (*handler)(int, siginfo_t *, void *),
                                           int flags) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | flags;
    sigemptyset(&action.sa_mask);
    CHECK(sigaction(number, &action, NULL) == 0);
}

// Waits for one child and checks that it exited with this status.
__attribute__((unused)) static void expect_exit(pid_t child, int wanted) {
    int status = -1;
    pid_t got;
    while ((got = waitpid(child, &status, 0)) < 0 && errno == EINTR) {
    }
    CHECK(got == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == wanted);
}
#endif
