// relive: threads=yes link=pie,static
// Life of threads: once, keys with destructors, thread-locals, detach, own stacks, barriers,
// cancellation with cleanup, 200 short threads, and main leaving by pthread_exit.
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int once_runs, destroyed, cleaned;
static __thread int local = 5;
static sem_t semaphore;

static void run_once(void) { once_runs++; }
static void destroy(void *value) { __atomic_fetch_add(&destroyed, *(int *)value, __ATOMIC_SEQ_CST); }
static void clean(void *arg) { *(int *)arg += 1; }

static void *short_one(void *arg) {
    static int one = 1;
    CHECK0(pthread_once(&once, run_once));
    CHECK(local == 5);
    local = (int)(long)arg;
    CHECK0(pthread_setspecific(key, &one));
    return (void *)((long)arg * 2);
}

static void *detached(void *arg) {
    (void)arg;
    CHECK(sem_post(&semaphore) == 0);
    return NULL;
}

static void *cancelled(void *arg) {
    pthread_cleanup_push(clean, arg);
    CHECK(sem_post(&semaphore) == 0);
    for (;;) pause();
    pthread_cleanup_pop(0);
    return NULL;
}

static void *cancelled_later(void *arg) {
    int old;
    CHECK0(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old));
    CHECK(sem_post(&semaphore) == 0);
    for (int i = 0; i < 1000; i++) sched_yield();
    pthread_cleanup_push(clean, arg);
    CHECK0(pthread_setcancelstate(old, NULL));
    pthread_testcancel();
    for (;;) pause();
    pthread_cleanup_pop(0);
    return NULL;
}

static pthread_barrier_t barrier;
static int phase_sum[10];
static void *phases(void *arg) {
    long me = (long)arg;
    int serial = 0;
    for (int i = 0; i < 10; i++) {
        __atomic_fetch_add(&phase_sum[i], (int)me, __ATOMIC_RELAXED);
        serial += pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD;
        CHECK(__atomic_load_n(&phase_sum[i], __ATOMIC_RELAXED) == 0 + 1 + 2 + 3);
    }
    return (void *)(long)serial;
}

static void *last_one(void *arg) {
    CHECK0(pthread_join(*(pthread_t *)arg, NULL));
    ok();
    return NULL;
}

int main(void) {
    CHECK0(pthread_key_create(&key, destroy));
    CHECK(sem_init(&semaphore, 0, 0) == 0);
    for (long i = 0; i < 200; i++) {
        pthread_t thread;
        void *result;
        CHECK0(pthread_create(&thread, NULL, short_one, (void *)i));
        CHECK0(pthread_join(thread, &result));
        CHECK((long)result == i * 2 && local == 5);
    }
    CHECK(once_runs == 1 && destroyed == 200);

    pthread_attr_t attr;
    CHECK0(pthread_attr_init(&attr));
    CHECK0(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED));
    pthread_t thread, threads[4];
    for (int i = 0; i < 10; i++) CHECK0(pthread_create(&thread, &attr, detached, NULL));
    for (int i = 0; i < 10; i++) CHECK(sem_wait(&semaphore) == 0);
    void *stack = mmap(NULL, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    CHECK0(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_JOINABLE));
    CHECK0(pthread_attr_setstack(&attr, stack, 1 << 18));
    CHECK0(pthread_create(&thread, &attr, detached, NULL));
    CHECK0(pthread_join(thread, NULL));
    CHECK(munmap(stack, 1 << 18) == 0 && sem_wait(&semaphore) == 0);

    void *(*bodies[])(void *) = {cancelled, cancelled_later};
    for (int i = 0; i < 2; i++) {
        void *result;
        CHECK0(pthread_create(&thread, NULL, bodies[i], &cleaned));
        CHECK(sem_wait(&semaphore) == 0);
        CHECK0(pthread_cancel(thread));
        CHECK0(pthread_join(thread, &result));
        CHECK(result == PTHREAD_CANCELED && cleaned == i + 1);
    }
    CHECK0(pthread_barrier_init(&barrier, NULL, 4));
    long serials = 0;
    for (long i = 0; i < 4; i++) CHECK0(pthread_create(&threads[i], NULL, phases, (void *)i));
    for (int i = 0; i < 4; i++) {
        void *result;
        CHECK0(pthread_join(threads[i], &result));
        serials += (long)result;
    }
    CHECK(serials == 10);
    static pthread_t self;
    self = pthread_self();
    CHECK0(pthread_create(&thread, NULL, last_one, &self));
    pthread_exit(NULL);
}
