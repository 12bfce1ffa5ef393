// relive: link=pie threads=yes sketch=yes
// Signals with the numbers of faults that are sent while blocked: pending, waited for, taken.
#include "check.h"
#include <pthread.h>
#include <time.h>

static void *sends(void *to) {
    usleep(20000);
    CHECK0(pthread_kill(*(pthread_t *)to, SIGSEGV));
    return NULL;
}

int main(void) {
    sigset_t set, pending;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    sigaddset(&set, SIGTRAP);
    sigaddset(&set, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    CHECK(raise(SIGSEGV) == 0 && raise(SIGUSR1) == 0);
    CHECK(sigpending(&pending) == 0 && sigismember(&pending, SIGSEGV) && sigismember(&pending, SIGUSR1));
    CHECK(!sigismember(&pending, SIGTRAP));
    siginfo_t info;
    int seen = 0;
    for (int i = 0; i < 2; i++) {
        int number = sigwaitinfo(&set, &info);
        CHECK(number == info.si_signo && info.si_pid == getpid());
        seen |= 1 << number;
    }
    CHECK(seen == (1 << SIGSEGV | 1 << SIGUSR1));
    struct timespec none = {0, 0};
    CHECK(sigtimedwait(&set, &info, &none) == -1 && errno == EAGAIN);
    pthread_t self = pthread_self(), thread;
    CHECK0(pthread_create(&thread, NULL, sends, &self));
    CHECK(sigwaitinfo(&set, &info) == SIGSEGV && info.si_code == SI_USER);
    CHECK0(pthread_join(thread, NULL));
    CHECK(sigpending(&pending) == 0 && !sigismember(&pending, SIGSEGV));
    return ok();
}
