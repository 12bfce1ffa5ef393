// relive: threads=yes sketch=yes parallel=refused
// A process whose threads have ended has children by vfork(2), which become programs or end, then makes a thread and waits
// for it, which touches first what has just been written.
#include "check.h"
#include <pthread.h>

extern char **environ;
static struct {
    _Alignas(4096) int word;
    char rest[4092];
} shared[8];

static void *reader(void *arg) {
    int *word = arg;
    *word += 1;
    return arg;
}

int main(void) {
    char *const argv[] = {"true", NULL};
    for (int round = 0; round < 8; round++) {
        pthread_t thread;
        for (int n = 0; n < round; n++) {
            pid_t child = vfork();
            if (child == 0) {
                if (n % 2 == 0) execve("/bin/true", argv, environ);
                _exit(0);
            }
            CHECK(child > 0);
            expect_exit(child, 0);
        }
        shared[round].word = round;
        CHECK0(pthread_create(&thread, NULL, reader, &shared[round].word));
        CHECK0(pthread_join(thread, NULL));
        CHECK(shared[round].word == round + 1);
    }
    return ok();
}
