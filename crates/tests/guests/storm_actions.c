// relive: threads=yes sketch=yes timeout=90
// Several threads set the action of one signal at the same moment: the action that a later look
// finds is the one that a signal then takes. Others send signals all the while.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

enum { ROUNDS = 150, SETTERS = 3 };
static pthread_barrier_t barrier;
static atomic_int stop;
static __thread volatile int caught;

static void catch(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    caught++;
}

static void urgent(int number, siginfo_t *info, void *context) { (void)number, (void)info, (void)context; }

static void ignore(int number) {
    struct sigaction action = {0};
    action.sa_handler = SIG_IGN;
    CHECK(sigaction(number, &action, NULL) == 0);
}

static void *setter(void *arg) {
    unsigned me = (unsigned)(long)arg;
    for (unsigned i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&barrier);
        for (unsigned k = 0; k < 3; k++) {
            if ((me + i + k) % 2) handle(SIGUSR1, catch, SA_NODEFER);
            else ignore(SIGUSR1);
        }
        // One of them has come last: all see the same.
        pthread_barrier_wait(&barrier);
        struct sigaction now;
        CHECK(sigaction(SIGUSR1, NULL, &now) == 0);
        int before = caught;
        CHECK(syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1) == 0);
        CHECK(caught - before == (now.sa_handler != SIG_IGN));
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

// A handler that is for one signal only; the default action does nothing.
static void *once(void *arg) {
    (void)arg;
    while (!atomic_load(&stop)) {
        handle(SIGURG, urgent, SA_RESETHAND);
        CHECK(kill(getpid(), SIGURG) == 0);
        sched_yield();
    }
    return NULL;
}

int main(void) {
    pthread_t setters[SETTERS], sender;
    CHECK0(pthread_barrier_init(&barrier, NULL, SETTERS));
    CHECK0(pthread_create(&sender, NULL, once, NULL));
    for (long i = 0; i < SETTERS; i++) CHECK0(pthread_create(&setters[i], NULL, setter, (void *)i));
    for (int i = 0; i < SETTERS; i++) CHECK0(pthread_join(setters[i], NULL));
    atomic_store(&stop, 1);
    CHECK0(pthread_join(sender, NULL));
    return ok();
}
