// A signal comes between two stores that its handler reads.
#include "bug.h"

#include <signal.h>

static volatile int head, count;
static volatile sig_atomic_t torn;

static void handle(int sig) {
    (void)sig;
    torn |= head != count;
}

static void *send(void *to) {
    for (volatile int n = 0; n < 2000; n++) {}
    pthread_kill(*(pthread_t *)to, SIGUSR1);
    return NULL;
}

int main(void) {
    signal(SIGUSR1, handle);
    pthread_t thread, self = pthread_self();
    pthread_create(&thread, NULL, send, &self);
    for (int i = 0; i < 10; i++) {
        for (volatile int n = 0; n < 500; n++) {}
        head++;
        count++;
    }
    pthread_join(thread, NULL);
    FAIL_IF(torn);
    return 0;
}
