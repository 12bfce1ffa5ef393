// relive: link=pie,static
// The state that a child in its parent's memory has of its parent, and its parent of the child.
#include "check.h"
#include <linux/sched.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static char stack[1 << 16] __attribute__((aligned(16)));
static char alternate[1 << 16];
static volatile int handled;

static void counts(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    handled++;
}

static int has_alternate(void *wanted) {
    stack_t now;
    CHECK(sigaltstack(NULL, &now) == 0);
    CHECK(!(now.ss_flags & SS_DISABLE) == (wanted != NULL));
    return 5;
}

static int asks_death_signal(void *unused) {
    (void)unused;
    int signal = -1;
    CHECK(prctl(PR_GET_PDEATHSIG, &signal) == 0 && signal == 0);
    return 5;
}

static int changes(void *unused) {
    (void)unused;
    CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
    CHECK(prctl(PR_SET_NAME, "child") == 0);
    return 5;
}

// SIGSEGV is a signal that a host never blocks.
static int signals_its_parent(void *unused) {
    (void)unused;
    CHECK(kill(getppid(), SIGSEGV) == 0 && kill(getppid(), SIGUSR1) == 0);
    return 5;
}

static void runs(int (*body)(void *), void *argument, int flags) {
    pid_t child = clone(body, stack + sizeof stack, flags | SIGCHLD, argument);
    CHECK(child > 0);
    expect_exit(child, 5);
}

// Without handlers the child has no flags of an action either.
static void resets_actions(void) {
    struct sigaction action = {.sa_handler = SIG_IGN, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    struct clone_args args = {.flags = 1ull << 32, .exit_signal = SIGCHLD};
    long child = syscall(SYS_clone3, &args, sizeof args);
    if (child == 0) {
        CHECK(sigaction(SIGUSR2, NULL, &action) == 0);
        CHECK(action.sa_handler == SIG_IGN && !(action.sa_flags & SA_RESTART));
        _exit(5);
    }
    CHECK(child > 0);
    expect_exit((pid_t)child, 5);
    CHECK(sigaction(SIGUSR2, NULL, &action) == 0 && (action.sa_flags & SA_RESTART));
}

int main(void) {
    stack_t own = {.ss_sp = alternate, .ss_size = sizeof alternate};
    CHECK(sigaltstack(&own, NULL) == 0);
    runs(has_alternate, &own, CLONE_VM | CLONE_VFORK);
    runs(has_alternate, &own, 0);
    // One that is not waited for could be on it at the same time.
    runs(has_alternate, NULL, CLONE_VM);
    CHECK(prctl(PR_SET_PDEATHSIG, SIGUSR2) == 0);
    runs(asks_death_signal, NULL, CLONE_VM | CLONE_VFORK);
    runs(asks_death_signal, NULL, 0);
    char name[17] = "";
    CHECK(prctl(PR_SET_NAME, "parent") == 0);
    runs(changes, NULL, 0);
    CHECK(prctl(PR_GET_DUMPABLE) == 1);
    // The memory is dumpable or not, and it is the parent's.
    runs(changes, NULL, CLONE_VM | CLONE_VFORK);
    CHECK(prctl(PR_GET_DUMPABLE) == 0);
    CHECK(prctl(PR_GET_NAME, name) == 0 && strcmp(name, "parent") == 0);
    CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
    handle(SIGSEGV, counts, 0);
    handle(SIGUSR1, counts, 0);
    runs(signals_its_parent, NULL, CLONE_VM | CLONE_VFORK);
    CHECK(handled == 2);
    resets_actions();
    return ok();
}
