// A process is forked while another thread holds a lock that the child takes.
#include "bug.h"

#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static volatile long sum;

static void *work(void *a) {
    for (int i = 0; i < 20; i++) {
        for (volatile int n = 0; n < 300; n++) {}
        pthread_mutex_lock(&m);
        sum++;
        pthread_mutex_unlock(&m);
    }
    return a;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    for (volatile int n = 0; n < 3000; n++) {}
    pid_t child = fork();
    if (child == 0) {
        // A lock that nobody frees any more: seen without waiting for ever.
        _exit(pthread_mutex_trylock(&m) != 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    FAIL_IF(status != 0);
    pthread_join(thread, NULL);
    return 0;
}
