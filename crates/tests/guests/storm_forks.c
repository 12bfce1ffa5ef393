// relive: threads=yes timeout=120
// Several threads fork, in all ways that there are, while others map memory, allocate, end and sleep.
#include "check.h"
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { FORKERS = 2, ROUNDS = 12 };
extern char **environ;
static atomic_int stop;
static int pipes[2];

static int sum(int n) {
    volatile int total = 0;
    for (int i = 0; i <= n; i++) total += i;
    return total;
}

static void *forker(void *arg) {
    int me = (int)(long)arg;
    for (int i = 0; i < ROUNDS; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            char *p = malloc(5000);
            memset(p, 1, 5000);
            _exit(sum(me + 3));
        }
        expect_exit(child, sum(me + 3));
        // As a program does that has no C library: the child only computes.
        long raw = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
        CHECK(raw >= 0);
        if (raw == 0) {
            void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            *(volatile char *)p = 1;
            syscall(SYS_exit_group, sum(me + 4));
        }
        expect_exit((pid_t)raw, sum(me + 4));
        if (i % 6 == 0) {
            char *const argv[] = {"true", NULL};
            CHECK0(posix_spawnp(&child, "true", NULL, NULL, argv, environ));
            expect_exit(child, 0);
        }
    }
    return NULL;
}

static void *empty(void *arg) { return arg; }

static void *maker(void *arg) {
    (void)arg;
    while (!atomic_load(&stop)) {
        pthread_t thread;
        CHECK0(pthread_create(&thread, NULL, empty, NULL));
        void *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(p != MAP_FAILED);
        free(malloc(200000));
        CHECK(munmap(p, 8192) == 0);
        CHECK0(pthread_join(thread, NULL));
    }
    return NULL;
}

// Sleeps in the kernel, with a buffer that the kernel writes at the end.
static void *sleeper(void *arg) {
    char byte = 0;
    CHECK(read(pipes[0], &byte, 1) == 1 && byte == 'x');
    return arg;
}

int main(void) {
    pthread_t forkers[FORKERS], other[2];
    CHECK(pipe(pipes) == 0);
    CHECK0(pthread_create(&other[0], NULL, maker, NULL));
    CHECK0(pthread_create(&other[1], NULL, sleeper, NULL));
    for (long i = 0; i < FORKERS; i++) CHECK0(pthread_create(&forkers[i], NULL, forker, (void *)i));
    for (int i = 0; i < FORKERS; i++) CHECK0(pthread_join(forkers[i], NULL));
    atomic_store(&stop, 1);
    CHECK(write(pipes[1], "x", 1) == 1);
    for (int i = 0; i < 2; i++) CHECK0(pthread_join(other[i], NULL));
    return ok();
}
