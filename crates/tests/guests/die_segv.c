// relive: signal=SIGSEGV link=pie,static
// An uncaught fault in one thread ends all of them.
#include "check.h"
#include <pthread.h>
#include <sys/resource.h>

static void *faulter(void *arg) {
    *(volatile int *)arg = 1;
    return NULL;
}

int main(void) {
    struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
    puts("before");
    fflush(stdout);
    pthread_t thread;
    CHECK0(pthread_create(&thread, NULL, faulter, (void *)16));
    for (;;) pause();
}
