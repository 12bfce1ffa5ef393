// relive:
// The state that a new program keeps of the old one, and the state that it loses.
#include "check.h"
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>

static void nothing(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
}

static volatile int handled;

static void counts(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    if (number == SIGSEGV) handled += number;
}

static int second(void) {
    sigset_t mask, pending;
    struct sigaction action;
    char name[17] = "";
    stack_t stack;
    struct itimerval timer;
    int death = 0;
    CHECK(sigprocmask(SIG_BLOCK, NULL, &mask) == 0 && sigismember(&mask, SIGUSR2) == 1);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR2) == 1);
    CHECK(sigismember(&mask, SIGSEGV) == 1 && sigismember(&pending, SIGSEGV) == 1);
    CHECK(sigaction(SIGUSR1, NULL, &action) == 0 && action.sa_handler == SIG_DFL);
    CHECK(sigaction(SIGINT, NULL, &action) == 0 && action.sa_handler == SIG_IGN);
    CHECK(sigaltstack(NULL, &stack) == 0 && (stack.ss_flags & SS_DISABLE));
    CHECK(getitimer(ITIMER_REAL, &timer) == 0 && timer.it_value.tv_sec > 50);
    CHECK(getpriority(PRIO_PROCESS, 0) == 3 && umask(0) == 0123);
    CHECK(prctl(PR_GET_PDEATHSIG, &death) == 0 && death == SIGHUP);
    CHECK(prctl(PR_GET_NAME, name) == 0 && strcmp(name, "exe") == 0);
    CHECK(fcntl(20, F_GETFD) == 0 && fcntl(21, F_GETFD) == -1);
    handle(SIGSEGV, counts, 0);
    sigdelset(&mask, SIGUSR2);
    CHECK(sigprocmask(SIG_UNBLOCK, &mask, NULL) == 0 && handled == SIGSEGV);
    return ok();
}

int main(int count, char **arguments) {
    (void)arguments;
    if (count > 1) return second();
    static char alternate[65536];
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    CHECK(sigaltstack(&stack, NULL) == 0);
    handle(SIGUSR1, nothing, 0);
    signal(SIGINT, SIG_IGN);
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    sigaddset(&mask, SIGSEGV);
    CHECK(sigprocmask(SIG_BLOCK, &mask, NULL) == 0 && raise(SIGUSR2) == 0 && raise(SIGSEGV) == 0);
    CHECK(setpriority(PRIO_PROCESS, 0, 3) == 0);
    alarm(100);
    umask(0123);
    CHECK(prctl(PR_SET_PDEATHSIG, SIGHUP) == 0);
    CHECK(dup2(0, 20) == 20 && dup3(0, 21, O_CLOEXEC) == 21);
    execl("/proc/self/exe", "renamed", "second", NULL);
    CHECK(0);
}
