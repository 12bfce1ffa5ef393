// relive: modes=record,replay,verify threads=yes coherence=no
// The ends of a process in the memory of its parent: by a fault, by SIGKILL while it waits or from
// its own hand, stopped and continued, with the thread that made it and with its parent; and memory
// that both share with a third.
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { FAULTS, KILLS_ITSELF, SPINS, SLEEPS, STOPS, SHARES };

static char stack[64 << 10] __attribute__((aligned(16)));
static volatile int go, turns;
static int how;

static int lodger(void *arg) {
    int word = 0;
    (void)arg;
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    turns++;
    while (!go)
        sched_yield();
    switch (how) {
    case FAULTS:
        *(volatile int *)8 = 1;
        return 1;
    case KILLS_ITSELF:
        kill(getpid(), SIGKILL);
        return 1;
    case SPINS:
        for (;;)
            turns++;
    case SLEEPS:
        for (;;)
            syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0);
    case STOPS:
        kill(getpid(), SIGSTOP);
        return 9;
    default: {
        int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        *shared = 5;
        return *shared;
    }
    }
}

// Makes one, and waits until it has begun.
static pid_t made(int wanted) {
    how = wanted;
    go = turns = 0;
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_UNTRACED;
    pid_t child = clone(lodger, stack + sizeof stack, flags, NULL);
    CHECK(child > 0);
    while (turns == 0)
        sched_yield();
    go = 1;
    while (how == SPINS && turns < 100)
        sched_yield();
    return child;
}

static int status_of(pid_t child, int options) {
    int status;
    pid_t got;
    while ((got = waitpid(child, &status, __WALL | options)) == -1 && errno == EINTR) {
    }
    CHECK(got == child);
    return status;
}

static int killed(int status, int number) { return WIFSIGNALED(status) && WTERMSIG(status) == number; }

static void *makes_one(void *child) {
    *(pid_t *)child = made(SPINS);
    return NULL;
}

// A child that ends beside its lodger.
static void parent_ends(int wanted) {
    pid_t child = fork();
    if (child == 0) {
        made(wanted);
        _exit(6);
    }
    expect_exit(child, 6);
}

int main(void) {
    pid_t child = made(FAULTS);
    CHECK(killed(status_of(child, 0), SIGSEGV));
    child = made(KILLS_ITSELF);
    CHECK(killed(status_of(child, 0), SIGKILL));
    child = made(SPINS);
    CHECK(kill(child, SIGKILL) == 0 && killed(status_of(child, 0), SIGKILL));
    child = made(SLEEPS);
    CHECK(kill(child, SIGKILL) == 0 && killed(status_of(child, 0), SIGKILL));
    child = made(STOPS);
    int status = status_of(child, WUNTRACED);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP && kill(child, SIGCONT) == 0);
    status = status_of(child, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 9);

    pthread_t thread;
    CHECK0(pthread_create(&thread, NULL, makes_one, &child));
    CHECK0(pthread_join(thread, NULL));
    CHECK(killed(status_of(child, 0), SIGKILL));

    parent_ends(SPINS);
    parent_ends(SLEEPS);

    int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    pid_t third = fork();
    if (third == 0) {
        for (int i = 0; i < 1000; i++)
            __atomic_fetch_add(shared, 1, __ATOMIC_SEQ_CST);
        _exit(0);
    }
    child = made(SHARES);
    for (int i = 0; i < 1000; i++)
        __atomic_fetch_add(shared, 1, __ATOMIC_SEQ_CST);
    status = status_of(child, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 5);
    expect_exit(third, 0);
    CHECK(*shared == 2000);
    return ok();
}
