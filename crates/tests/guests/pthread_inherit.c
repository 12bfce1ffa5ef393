// relive: threads=yes sketch=yes parallel=refused timeout=60
// Mutexes with priority inheritance: threads and processes, trylock, timeouts, robust ones whose
// owner dies, errors, and a signal handler that runs while a thread waits.
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

enum { THREADS = 4, ROUNDS = 200 };

struct shared {
    pthread_mutex_t plain, robust, recursive;
    long count;
    int handled;
};

static struct shared *s;

static void *add(void *arg) {
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        CHECK0(pthread_mutex_lock(&s->plain));
        long value = s->count;
        for (volatile int k = 0; k < 20; k++) {}
        s->count = value + 1;
        CHECK0(pthread_mutex_unlock(&s->plain));
    }
    return NULL;
}

static void *die_with_it(void *arg) {
    (void)arg;
    CHECK0(pthread_mutex_lock(&s->robust));
    return NULL;
}

static void on_signal(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    __atomic_fetch_add(&s->handled, 1, __ATOMIC_SEQ_CST);
}

static void *wait_for_it(void *arg) {
    (void)arg;
    CHECK0(pthread_mutex_lock(&s->plain));
    CHECK0(pthread_mutex_unlock(&s->plain));
    return NULL;
}

static void init(pthread_mutex_t *mutex, int robust, int type) {
    pthread_mutexattr_t attr;
    CHECK0(pthread_mutexattr_init(&attr));
    CHECK0(pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT));
    CHECK0(pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED));
    CHECK0(pthread_mutexattr_setrobust(&attr, robust));
    CHECK0(pthread_mutexattr_settype(&attr, type));
    CHECK0(pthread_mutex_init(mutex, &attr));
}

int main(void) {
    s = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(s != MAP_FAILED);
    init(&s->plain, PTHREAD_MUTEX_STALLED, PTHREAD_MUTEX_ERRORCHECK);
    init(&s->robust, PTHREAD_MUTEX_ROBUST, PTHREAD_MUTEX_NORMAL);
    init(&s->recursive, PTHREAD_MUTEX_STALLED, PTHREAD_MUTEX_RECURSIVE);

    CHECK0(pthread_mutex_lock(&s->recursive));
    CHECK0(pthread_mutex_lock(&s->recursive));
    CHECK0(pthread_mutex_unlock(&s->recursive));
    CHECK0(pthread_mutex_unlock(&s->recursive));
    CHECK0(pthread_mutex_lock(&s->plain));
    CHECK(pthread_mutex_lock(&s->plain) == EDEADLK);
    CHECK0(pthread_mutex_unlock(&s->plain));

    // Threads of two processes.
    pthread_t threads[THREADS];
    pid_t child = fork();
    CHECK(child >= 0);
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, add, NULL));
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
    if (child == 0) _exit(0);
    expect_exit(child, 0);
    CHECK(s->count == 2 * THREADS * ROUNDS);

    // Held by another process: trylock and a timeout; a handler runs while a thread waits.
    int go[2];
    char byte;
    CHECK(pipe(go) == 0);
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK0(pthread_mutex_lock(&s->plain));
        CHECK(write(go[1], "", 1) == 1);
        while (__atomic_load_n(&s->handled, __ATOMIC_SEQ_CST) < 3) usleep(1000);
        CHECK0(pthread_mutex_unlock(&s->plain));
        _exit(0);
    }
    CHECK(read(go[0], &byte, 1) == 1);
    CHECK(pthread_mutex_trylock(&s->plain) == EBUSY);
    struct timespec soon;
    CHECK(clock_gettime(CLOCK_REALTIME, &soon) == 0);
    soon.tv_nsec += 2000000;
    if (soon.tv_nsec >= 1000000000) soon.tv_sec++, soon.tv_nsec -= 1000000000;
    CHECK(pthread_mutex_timedlock(&s->plain, &soon) == ETIMEDOUT);
    handle(SIGUSR1, on_signal, 0);
    CHECK0(pthread_create(&threads[0], NULL, wait_for_it, NULL));
    for (int i = 1; i <= 3; i++) {
        CHECK0(pthread_kill(threads[0], SIGUSR1));
        while (__atomic_load_n(&s->handled, __ATOMIC_SEQ_CST) < i) usleep(500);
    }
    CHECK0(pthread_join(threads[0], NULL));
    expect_exit(child, 0);

    // The owner ends: a thread, and a process that is killed.
    CHECK0(pthread_create(&threads[0], NULL, die_with_it, NULL));
    CHECK0(pthread_join(threads[0], NULL));
    CHECK(pthread_mutex_lock(&s->robust) == EOWNERDEAD);
    CHECK0(pthread_mutex_consistent(&s->robust));
    CHECK0(pthread_mutex_unlock(&s->robust));
    child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK0(pthread_mutex_lock(&s->robust));
        CHECK(write(go[1], "", 1) == 1);
        for (;;) pause();
    }
    CHECK(read(go[0], &byte, 1) == 1);
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(pthread_mutex_lock(&s->robust) == EOWNERDEAD);
    CHECK0(pthread_mutex_consistent(&s->robust));
    CHECK0(pthread_mutex_unlock(&s->robust));
    CHECK(waitpid(child, NULL, 0) == child);

    uint32_t word = 0;
    CHECK(syscall(SYS_futex, &word, FUTEX_UNLOCK_PI, 0, NULL) == -1 && errno == EPERM);
    CHECK(syscall(SYS_futex, &word, FUTEX_LOCK_PI, 0, NULL) == 0);
    CHECK((word & FUTEX_TID_MASK) == (uint32_t)getpid());
    CHECK(syscall(SYS_futex, &word, FUTEX_LOCK_PI, 0, NULL) == -1 && errno == EDEADLK);
    CHECK(syscall(SYS_futex, &word, FUTEX_UNLOCK_PI, 0, NULL) == 0 && word == 0);
    return ok();
}
