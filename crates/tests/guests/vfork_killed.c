// relive: threads=yes sketch=yes parallel=refused
// A process kills its children by vfork(2) in the midst of becoming another program, before it makes its first thread and between
// later ones. What they have done in its memory stays, and the thread's first call comes behind all of their calls.
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

enum { ROUNDS = 3, CHILDREN = 6 };
extern char **environ;
static int told;

static void *maps(void *arg) {
    char *at = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    *at = *(char *)arg;
    CHECK(munmap(at, 1 << 16) == 0);
    return arg;
}

int main(void) {
    char *const argv[] = {"sleep", "30", NULL};
    for (int round = 0; round < ROUNDS; round++) {
        for (int n = 0; n < CHILDREN; n++) {
            int status;
            pid_t child = vfork();
            if (child == 0) {
                told += n;
                execve("/bin/sleep", argv, environ);
                _exit(1);
            }
            CHECK(child > 0);
            CHECK(kill(child, SIGKILL) == 0);
            CHECK(waitpid(child, &status, 0) == child);
            CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        }
        CHECK(told == (round + 1) * CHILDREN * (CHILDREN - 1) / 2);
        pthread_t thread;
        CHECK0(pthread_create(&thread, NULL, maps, &round));
        CHECK0(pthread_join(thread, NULL));
    }
    return ok();
}
