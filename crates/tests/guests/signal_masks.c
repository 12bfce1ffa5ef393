// relive: link=pie,static
// Masks, pending sets, order of delivery, SA_NODEFER, SA_RESETHAND, sigsuspend, sigqueue
// with values, sigwait and sigtimedwait.
#include "check.h"

static volatile int depth, deepest, count, last_value, last_code;
static volatile int order[16], ordered;

static void nest(int number, siginfo_t *info, void *context) {
    (void)info;
    (void)context;
    if (++depth > deepest) deepest = depth;
    if (++count < 3) raise(number);
    depth--;
}

static void note(int number, siginfo_t *info, void *context) {
    (void)context;
    order[ordered++] = number;
    last_value = info->si_value.sival_int;
    last_code = info->si_code;
}

int main(void) {
    handle(SIGUSR1, nest, SA_NODEFER);
    raise(SIGUSR1);
    CHECK(deepest == 3 && count == 3);
    handle(SIGUSR1, nest, 0);
    deepest = count = 0;
    raise(SIGUSR1); // each raise inside waits for the return: three runs, never nested
    CHECK(deepest == 1 && count == 3);

    handle(SIGUSR2, note, SA_RESETHAND);
    raise(SIGUSR2);
    struct sigaction now;
    CHECK(sigaction(SIGUSR2, NULL, &now) == 0 && now.sa_handler == SIG_DFL && ordered == 1);

    sigset_t block, old, pending;
    sigemptyset(&block);
    for (int i = 0; i < 6; i++) {
        sigaddset(&block, SIGRTMIN + i);
        handle(SIGRTMIN + i, note, 0);
    }
    sigaddset(&block, SIGUSR2);
    handle(SIGUSR2, note, 0);
    CHECK(sigprocmask(SIG_BLOCK, &block, &old) == 0);
    ordered = 0;
    union sigval value = {.sival_int = 7};
    CHECK(sigqueue(getpid(), SIGRTMIN + 1, value) == 0);
    value.sival_int = 8;
    CHECK(sigqueue(getpid(), SIGRTMIN + 1, value) == 0);
    CHECK(kill(getpid(), SIGUSR2) == 0 && kill(getpid(), SIGUSR2) == 0);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGUSR2) && sigismember(&pending, SIGRTMIN + 1));
    CHECK(!sigismember(&pending, SIGRTMIN) && ordered == 0);
    siginfo_t info;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, SIGRTMIN + 1);
    CHECK(sigwaitinfo(&one, &info) == SIGRTMIN + 1 && info.si_value.sival_int == 7 && info.si_code == SI_QUEUE);
    CHECK(info.si_pid == getpid() && info.si_uid == getuid());
    CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
    // Standard signals do not queue; real-time ones keep their count and value.
    CHECK(ordered == 2);
    CHECK((order[0] == SIGUSR2 && order[1] == SIGRTMIN + 1) || (order[1] == SIGUSR2 && order[0] == SIGRTMIN + 1));

    CHECK(sigprocmask(SIG_BLOCK, &block, &old) == 0);
    ordered = 0;
    raise(SIGUSR2);
    sigset_t all_but = block;
    sigdelset(&all_but, SIGUSR2);
    CHECK(sigsuspend(&all_but) == -1 && errno == EINTR && ordered == 1 && order[0] == SIGUSR2);
    CHECK(sigprocmask(SIG_BLOCK, NULL, &pending) == 0 && sigismember(&pending, SIGUSR2));

    struct timespec zero = {0, 0}, soon = {0, 1000000};
    CHECK(sigtimedwait(&one, NULL, &zero) == -1 && errno == EAGAIN);
    CHECK(sigtimedwait(&one, NULL, &soon) == -1 && errno == EAGAIN);
    raise(SIGRTMIN + 1);
    int got;
    CHECK(sigwait(&one, &got) == 0 && got == SIGRTMIN + 1);
    CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
    // KILL and STOP cannot be caught or blocked.
    struct sigaction action = {.sa_handler = SIG_IGN};
    CHECK(sigaction(SIGKILL, &action, NULL) == -1 && errno == EINVAL);
    CHECK(sigaction(SIGURG, &action, NULL) == 0);
    raise(SIGURG);
    return ok();
}
