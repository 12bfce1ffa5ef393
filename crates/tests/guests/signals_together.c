// relive: sketch=yes
// Many signals that come free at once: their handlers are entered one above the other, before any
// of them has executed an instruction, in the order in which the kernel takes signals.
#include "check.h"

static int order[64], seen;

static void note(int number, siginfo_t *info, void *context) {
    (void)context;
    if (seen < 64) order[seen++] = number * 100 + info->si_value.sival_int;
}

static void expect(const int *wanted, int count) {
    CHECK(seen == count);
    for (int i = 0; i < count; i++) {
        if (order[i] != wanted[i]) dprintf(2, "%d: %d, not %d\n", i, order[i], wanted[i]);
        CHECK(order[i] == wanted[i]);
    }
    seen = 0;
}

static void queue(int number, int value) {
    CHECK(sigqueue(getpid(), number, (union sigval){value}) == 0);
}

int main(void) {
    const int rt = SIGRTMIN;
    for (int number = SIGRTMIN; number <= SIGRTMAX; number++) handle(number, note, 0);
    handle(SIGUSR1, note, 0);
    handle(SIGUSR2, note, 0);
    sigset_t all, old;
    sigfillset(&all);
    CHECK(sigprocmask(SIG_BLOCK, &all, &old) == 0);
    queue(rt + 3, 1);
    queue(rt + 1, 2);
    queue(SIGUSR1, 3);
    queue(rt + 2, 4);
    CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
    // Taken from the lowest number on, so the highest one's handler lies on top.
    const int upwards[] = {(rt + 3) * 100 + 1, (rt + 2) * 100 + 4, (rt + 1) * 100 + 2, SIGUSR1 * 100 + 3};
    expect(upwards, 4);

    // Those of one number come one after the other; the thread's own before the process's.
    CHECK(sigprocmask(SIG_BLOCK, &all, NULL) == 0);
    queue(rt, 1);
    queue(rt, 2);
    queue(SIGUSR1, 3);
    CHECK(raise(SIGUSR2) == 0);
    CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
    seen--; // SIGUSR2 carries no value.
    CHECK(order[seen] / 100 == SIGUSR2);
    const int same[] = {rt * 100 + 1, rt * 100 + 2, SIGUSR1 * 100 + 3};
    expect(same, 3);

    // A handler's mask holds the later ones back until it returns.
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO, .sa_mask = all};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(sigprocmask(SIG_BLOCK, &all, NULL) == 0);
    queue(rt + 3, 1);
    queue(SIGUSR1, 3);
    CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
    const int held[] = {SIGUSR1 * 100 + 3, (rt + 3) * 100 + 1};
    expect(held, 2);

    // Those that faults raise come before all others, the lowest number first too.
    static const int faults[] = {SIGSEGV, SIGTRAP, SIGILL, SIGFPE, SIGBUS};
    for (int i = 0; i < 5; i++) handle(faults[i], note, 0);
    CHECK(sigprocmask(SIG_BLOCK, &all, NULL) == 0);
    queue(SIGUSR2, 9);
    for (int i = 0; i < 5; i++) queue(faults[i], i);
    CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0);
    const int first[] = {SIGUSR2 * 100 + 9, SIGSEGV * 100, SIGFPE * 100 + 3, SIGBUS * 100 + 4,
                         SIGTRAP * 100 + 1, SIGILL * 100 + 2};
    expect(first, 6);
    return ok();
}
