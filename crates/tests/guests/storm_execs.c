// relive: threads=yes args="6" timeout=120
// Several threads execute a program at the same moment, while others allocate: one of them does, and
// the program has the limits that it was left.
#include "check.h"
#include <pthread.h>
#include <sys/resource.h>

enum { LIMIT = 200, THREADS = 3 };
static char *name, *left;

static void *execute(void *arg) {
    char less[20];
    snprintf(less, sizeof less, "%d", atoi(left) - 1);
    execl("/proc/self/exe", name, less, (char *)NULL);
    CHECK(!"it is executed");
    return arg;
}

static void *allocate(void *arg) {
    for (;;) free(malloc(1000));
    return arg;
}

// A thread of a program that is being executed by another one may get EAGAIN (clone shares the root
// and the working directory with a call to execve that checks them).
static void start(void *(*routine)(void *)) {
    pthread_t thread;
    int error;
    while ((error = pthread_create(&thread, NULL, routine, NULL)) == EAGAIN) continue;
    CHECK(error == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    name = argv[0], left = argv[1];
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (atoi(left) == 6) {
        limit.rlim_cur = LIMIT;
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    }
    CHECK(limit.rlim_cur == LIMIT);
    if (atoi(left) == 0) return ok();
    start(allocate);
    for (int i = 0; i < THREADS; i++) start(execute);
    for (;;) pause();
}
