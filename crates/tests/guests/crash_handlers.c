// relive: threads=yes sketch=yes parallel=refused
// Two threads fault at the same moment, and the handler is for one fault only (SA_RESETHAND, as crash handlers
// have it): the first fault is handled, the second one ends the process, whichever thread it is of.
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>

enum { ROUNDS = 12, FAULTS = 2 };
static pthread_barrier_t barrier;
static volatile int *volatile nowhere;

static void crashed(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    struct timespec rest = {0, 2000000};
    nanosleep(&rest, NULL);
    _exit(3);
}

static void *fault(void *arg) {
    (void)arg;
    pthread_barrier_wait(&barrier);
    *nowhere = 1;
    return NULL;
}

int main(void) {
    for (int i = 0; i < ROUNDS; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            pthread_t threads[FAULTS];
            CHECK0(pthread_barrier_init(&barrier, NULL, FAULTS));
            handle(SIGSEGV, crashed, SA_RESETHAND);
            for (int k = 0; k < FAULTS; k++) CHECK0(pthread_create(&threads[k], NULL, fault, NULL));
            for (int k = 0; k < FAULTS; k++) CHECK0(pthread_join(threads[k], NULL));
            _exit(4);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) || (WIFEXITED(status) && WEXITSTATUS(status) == 3));
    }
    return ok();
}
