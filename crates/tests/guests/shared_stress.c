// relive: threads=yes sketch=yes parallel=refused timeout=60
// Processes with threads on one shared map: process-shared mutex, condition variable, barrier,
// read-write lock, semaphore, spinlock and atomics, all at once, with private work between.
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>

enum { PROCESSES = 3, THREADS = 3, ROUNDS = 60, ALL = PROCESSES * THREADS };

struct shared {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    pthread_barrier_t barrier;
    pthread_rwlock_t rwlock;
    pthread_spinlock_t spin;
    sem_t sem;
    long by_mutex, by_sem, by_spin, by_rwlock, by_atomic;
    int turn;
};

static struct shared *s;
static int first; // number of this process's first thread

static void init(void) {
    pthread_mutexattr_t m;
    pthread_condattr_t c;
    pthread_barrierattr_t b;
    pthread_rwlockattr_t r;
    CHECK0(pthread_mutexattr_init(&m));
    CHECK0(pthread_mutexattr_setpshared(&m, PTHREAD_PROCESS_SHARED));
    CHECK0(pthread_mutex_init(&s->mutex, &m));
    CHECK0(pthread_condattr_init(&c));
    CHECK0(pthread_condattr_setpshared(&c, PTHREAD_PROCESS_SHARED));
    CHECK0(pthread_cond_init(&s->cond, &c));
    CHECK0(pthread_barrierattr_init(&b));
    CHECK0(pthread_barrierattr_setpshared(&b, PTHREAD_PROCESS_SHARED));
    CHECK0(pthread_barrier_init(&s->barrier, &b, ALL));
    CHECK0(pthread_rwlockattr_init(&r));
    CHECK0(pthread_rwlockattr_setpshared(&r, PTHREAD_PROCESS_SHARED));
    CHECK0(pthread_rwlock_init(&s->rwlock, &r));
    CHECK0(pthread_spin_init(&s->spin, PTHREAD_PROCESS_SHARED));
    CHECK(sem_init(&s->sem, 1, 1) == 0);
}

static void *work(void *arg) {
    int me = first + (int)(long)arg;
    unsigned private = me;
    CHECK0(pthread_barrier_wait(&s->barrier) == PTHREAD_BARRIER_SERIAL_THREAD ? 0 : 0);
    for (int i = 0; i < ROUNDS; i++) {
        CHECK0(pthread_mutex_lock(&s->mutex));
        s->by_mutex++;
        CHECK0(pthread_mutex_unlock(&s->mutex));
        CHECK(sem_wait(&s->sem) == 0);
        s->by_sem++;
        CHECK(sem_post(&s->sem) == 0);
        CHECK0(pthread_spin_lock(&s->spin));
        s->by_spin++;
        CHECK0(pthread_spin_unlock(&s->spin));
        if (i % 4 == 0) {
            CHECK0(pthread_rwlock_wrlock(&s->rwlock));
            s->by_rwlock++;
        } else {
            CHECK0(pthread_rwlock_rdlock(&s->rwlock));
            CHECK(s->by_rwlock >= 0);
        }
        CHECK0(pthread_rwlock_unlock(&s->rwlock));
        __atomic_fetch_add(&s->by_atomic, 1, __ATOMIC_RELAXED);
        for (int k = 0; k < 200; k++) private = private * 1664525 + 1013904223;
        if (i % 20 == 0) pthread_barrier_wait(&s->barrier);
    }
    // One after the other, in order of their numbers.
    CHECK0(pthread_mutex_lock(&s->mutex));
    while (s->turn != me) CHECK0(pthread_cond_wait(&s->cond, &s->mutex));
    s->turn++;
    CHECK0(pthread_cond_broadcast(&s->cond));
    CHECK0(pthread_mutex_unlock(&s->mutex));
    return (void *)(long)(private & 1);
}

static void run(void) {
    pthread_t threads[THREADS];
    for (long i = 1; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, work, (void *)i));
    work(NULL);
    for (int i = 1; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
}

int main(void) {
    s = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(s != MAP_FAILED);
    init();
    pid_t children[PROCESSES];
    for (int i = 1; i < PROCESSES; i++) {
        first = i * THREADS;
        children[i] = fork();
        CHECK(children[i] >= 0);
        if (children[i] == 0) {
            run();
            _exit(i);
        }
    }
    first = 0;
    run();
    for (int i = 1; i < PROCESSES; i++) expect_exit(children[i], i);
    long all = ALL * ROUNDS;
    CHECK(s->by_mutex == all && s->by_sem == all && s->by_spin == all && s->by_atomic == all);
    CHECK(s->by_rwlock == ALL * (ROUNDS / 4) && s->turn == ALL);
    return ok();
}
