// relive: threads=yes
// Directed and process-wide signals among threads: tgkill, pthread_kill, per-thread masks,
// a sigwait thread, sigqueue to one thread.
#include "check.h"
#include <pthread.h>
#include <sys/syscall.h>

static __thread int mine;
static volatile int by_handler;
static pthread_barrier_t barrier;

static void on_usr(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    mine++;
    __atomic_fetch_add(&by_handler, info->si_code == SI_TKILL, __ATOMIC_SEQ_CST);
}

static pid_t ids[4];
static void *target(void *arg) {
    long me = (long)arg;
    ids[me] = (pid_t)syscall(SYS_gettid);
    pthread_barrier_wait(&barrier);
    while (__atomic_load_n(&mine, __ATOMIC_RELAXED) < 20) sched_yield();
    CHECK(mine == 20);
    return NULL;
}

static void *waiter(void *arg) {
    sigset_t *set = arg;
    int total = 0, number;
    do {
        CHECK(sigwait(set, &number) == 0);
        total += number == SIGRTMIN + 2;
    } while (number != SIGTERM);
    return (void *)(long)total;
}

int main(void) {
    handle(SIGUSR1, on_usr, 0);
    pthread_t threads[4], wait_thread;
    CHECK0(pthread_barrier_init(&barrier, NULL, 5));
    for (long i = 0; i < 4; i++) CHECK0(pthread_create(&threads[i], NULL, target, (void *)i));
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 4; i++)
        for (int n = 1; n <= 20; n++) {
            CHECK(n % 2 ? pthread_kill(threads[i], SIGUSR1) == 0
                        : syscall(SYS_tgkill, getpid(), ids[i], SIGUSR1) == 0);
            // Standard signals merge: the next one goes out when this one was taken.
            while (__atomic_load_n(&by_handler, __ATOMIC_SEQ_CST) < i * 20 + n) sched_yield();
        }
    for (int i = 0; i < 4; i++) CHECK0(pthread_join(threads[i], NULL));
    CHECK(mine == 0 && by_handler == 80);

    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGRTMIN + 2);
    CHECK0(pthread_sigmask(SIG_BLOCK, &set, NULL));
    CHECK0(pthread_create(&wait_thread, NULL, waiter, &set));
    union sigval value = {.sival_int = 1};
    for (int i = 0; i < 10; i++) CHECK(sigqueue(getpid(), SIGRTMIN + 2, value) == 0);
    for (int i = 0; i < 5; i++) CHECK0(pthread_sigqueue(wait_thread, SIGRTMIN + 2, value));
    CHECK(kill(getpid(), SIGTERM) == 0); // lower number, so it may overtake the queue
    void *total;
    CHECK0(pthread_join(wait_thread, &total));
    struct timespec zero = {0, 0};
    long left = 0;
    while (sigtimedwait(&set, NULL, &zero) > 0) left++;
    CHECK((long)total + left <= 15);
    CHECK(pthread_kill(pthread_self(), 0) == 0);
    return ok();
}
