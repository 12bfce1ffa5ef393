// relive: threads=yes
// A thread executes a program when the first thread of the process has ended: /proc/self is a zombie's, and names no file.
#include "check.h"

#include <limits.h>
#include <pthread.h>

static char path[PATH_MAX];
static pthread_t first;

static void *spin(void *unused) {
    (void)unused;
    for (volatile long i = 0;; i++) {
    }
}

static void *execute(void *unused) {
    (void)unused;
    CHECK(pthread_join(first, NULL) == 0);
    execl(path, path, "again", NULL);
    CHECK(0);
    return NULL;
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) {
        return ok();
    }
    CHECK(readlink("/proc/self/exe", path, sizeof path - 1) > 0);
    first = pthread_self();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, spin, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, execute, NULL) == 0);
    pthread_exit(NULL);
}
