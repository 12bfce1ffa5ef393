// relive: threads=yes sketch=yes parallel=refused timeout=60
// One thread executes a program while others make children by vfork all the time: a child that is in the memory of the
// process at that moment goes on, executes its own program and ends, and the new program gets its status.
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

enum { THREADS = 4 };
static pthread_barrier_t begun;

static void *spawns(void *arg) {
    for (int round = 0;; round++) {
        pid_t child = vfork();
        if (child == 0) {
            execl("/proc/self/exe", "child", "child", (char *)NULL);
            _exit(1);
        }
        CHECK(child > 0);
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        if (round == 1) pthread_barrier_wait(&begun);
    }
    return arg;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "child") == 0) return 0;
    if (argc > 1) {
        int status;
        while (wait(&status) > 0) CHECK(status == 0);
        CHECK(errno == ECHILD);
        return ok();
    }
    CHECK0(pthread_barrier_init(&begun, NULL, THREADS + 1));
    pthread_t thread;
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_create(&thread, NULL, spawns, NULL));
    pthread_barrier_wait(&begun);
    execl("/proc/self/exe", argv[0], "again", (char *)NULL);
    return 1;
}
