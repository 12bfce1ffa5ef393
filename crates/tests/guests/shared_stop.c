// relive: threads=yes sketch=yes parallel=refused timeout=60
// Processes that share memory are stopped and go on: by their parent while they work or sleep,
// and by themselves. The others go on meanwhile.
#include "check.h"
#include <sys/mman.h>

static volatile long *cell;

static void stopped(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, WUNTRACED) == child);
    CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
}

int main(void) {
    cell = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(cell != MAP_FAILED);
    for (int how = 0; how < 3; how++) {
        cell[0] = cell[1] = 0;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            cell[1] = 1;
            if (how == 2) raise(SIGSTOP);
            while (cell[0] != 7) {
                if (how == 1) usleep(1000);
                else __builtin_ia32_pause();
            }
            _exit(6);
        }
        while (cell[1] == 0) __builtin_ia32_pause();
        if (how != 2) CHECK(kill(child, SIGSTOP) == 0);
        stopped(child);
        for (int i = 0; i < 20; i++) {
            cell[2] += i;
            usleep(1000);
        }
        cell[0] = 7;
        CHECK(waitpid(child, NULL, WNOHANG) == 0);
        CHECK(kill(child, SIGCONT) == 0);
        expect_exit(child, 6);
    }
    CHECK(cell[2] == 3 * 190);
    return ok();
}
