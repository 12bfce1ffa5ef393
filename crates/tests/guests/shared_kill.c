// relive: threads=yes sketch=yes parallel=refused output=free expect="killed 3" timeout=60
// Processes that share memory are killed: asleep, while they wait, and while they write to it
// all the time, by their parent and by a process that does not share the memory. Their last
// writes are seen by all others, then and in replay.
#include "check.h"
#include <sched.h>
#include <sys/mman.h>

static volatile long *cell;

static void killed(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static pid_t start(int spins) {
    cell[0] = 0;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        __atomic_store_n(&cell[0], 1, __ATOMIC_SEQ_CST);
        if (!spins) pause();
        for (;;) cell[0]++;
    }
    while (__atomic_load_n(&cell[0], __ATOMIC_SEQ_CST) == 0) sched_yield();
    return child;
}

int main(void) {
    int request[2], reply[2];
    CHECK(pipe(request) == 0 && pipe(reply) == 0);
    // A killer that has no part in the memory.
    pid_t killer = fork();
    CHECK(killer >= 0);
    if (killer == 0) {
        pid_t victim;
        close(request[1]);
        while (read(request[0], &victim, sizeof victim) == sizeof victim) {
            int result = kill(victim, SIGKILL);
            CHECK(write(reply[1], &result, sizeof result) == sizeof result);
        }
        _exit(0);
    }
    cell = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(cell != MAP_FAILED);

    pid_t sleeper = start(0);
    CHECK(kill(sleeper, SIGKILL) == 0);
    killed(sleeper);
    CHECK(cell[0] == 1);

    pid_t writer = start(1);
    CHECK(kill(writer, SIGKILL) == 0);
    long seen = cell[0];
    killed(writer);
    CHECK(cell[0] >= seen);
    printf("wrote %ld\n", cell[0]);

    pid_t other = start(1);
    int result = -1;
    CHECK(write(request[1], &other, sizeof other) == sizeof other);
    CHECK(read(reply[0], &result, sizeof result) == sizeof result && result == 0);
    killed(other);
    printf("wrote %ld\n", cell[0]);
    close(request[1]);
    expect_exit(killer, 0);
    printf("killed 3\n");
    return ok();
}
