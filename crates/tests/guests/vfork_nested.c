// relive: sketch=yes parallel=refused images=no
// A vfork child makes a vfork child of its own; one that waits and has its own memory; and an exec
// of a descriptor that is not there.
#include "check.h"
#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>

static volatile int steps;
static char stack[65536];

static int waits(void *argument) {
    (void)argument;
    steps = 7; // Its own copy.
    usleep(20000);
    CHECK(write(1, "child first\n", 12) == 12);
    return 3;
}

int main(void) {
    for (int round = 0; round < 3; round++) {
        pid_t child = vfork();
        if (child == 0) {
            steps++;
            pid_t inner = vfork();
            if (inner == 0) {
                steps++;
                if (round == 0) execl("/bin/true", "true", NULL);
                if (round == 1) _exit(4);
                kill(getpid(), SIGKILL);
            }
            steps++;
            _exit(5);
        }
        CHECK(child > 0);
        expect_exit(child, 5);
        CHECK(steps == 3 * (round + 1));
    }
    int parents = steps;
    pid_t child = clone(waits, stack + sizeof stack, CLONE_VFORK | SIGCHLD, NULL);
    CHECK(child > 0 && steps == parents);
    CHECK(write(1, "then the parent\n", 16) == 16);
    expect_exit(child, 3);
    char *none[] = {NULL};
    CHECK(syscall(SYS_execveat, -1, "", none, none, AT_EMPTY_PATH) == -1 && errno == EBADF);
    return ok();
}
