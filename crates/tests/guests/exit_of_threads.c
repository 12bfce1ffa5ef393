// relive: threads=yes exit=7 expect=ok
// A process whose threads end one by one: its status, when the first thread is the last one, when it is not, and
// when threads end at the same moment.
#include "check.h"
#include <pthread.h>
#include <sys/syscall.h>

enum { THREADS = 8 };

static pthread_t first;

static void *ends(void *arg) { return arg; }

static void *ends_later(void *arg) {
    CHECK0(pthread_join(first, NULL));
    syscall(SYS_exit, (long)arg);
    return NULL;
}

static int status_of(void (*program)(void)) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        first = pthread_self();
        program();
        syscall(SYS_exit, 5);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void joined(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, ends, NULL));
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
}

static void later(void) {
    pthread_t thread;
    CHECK0(pthread_create(&thread, NULL, ends_later, (void *)7));
}

static pthread_barrier_t barrier;

static void *ends_with_all(void *arg) {
    pthread_barrier_wait(&barrier);
    syscall(SYS_exit, 5);
    return arg;
}

static void together(void) {
    pthread_t thread;
    CHECK0(pthread_barrier_init(&barrier, NULL, THREADS + 1));
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_create(&thread, NULL, ends_with_all, NULL));
    pthread_barrier_wait(&barrier);
}

static void alone(void) {}

int main(void) {
    for (int i = 0; i < 10; i++) CHECK(status_of(joined) == 5);
    CHECK(status_of(alone) == 5);
    // Since Linux 5.17 the last thread's.
    printf("%d\n", status_of(later));
    for (int i = 0; i < 10; i++) CHECK(status_of(together) == 5);
    puts("ok");
    fflush(stdout);
    first = pthread_self();
    later();
    syscall(SYS_exit, 0);
}
