// relive: modes=record,replay,verify threads=yes sketch=yes parallel=refused timeout=60
// A child of vfork(2) is killed in the midst of calls in its parent's memory: by its number, by a descriptor, and with its group.
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#define ROUNDS 6

static void *maps(void *arg) {
    char *at = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    *at = *(char *)arg;
    CHECK(munmap(at, 1 << 16) == 0);
    return arg;
}

static void kills(int from, int round) {
    pid_t victim;
    CHECK(read(from, &victim, sizeof victim) == sizeof victim);
    usleep(2000 + 777 * round);
    if (round % 3 == 0) {
        CHECK(kill(victim, SIGKILL) == 0);
    } else if (round % 3 == 1) {
        int fd = syscall(SYS_pidfd_open, victim, 0);
        CHECK(fd >= 0);
        CHECK(syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0);
    } else {
        CHECK(kill(-victim, SIGKILL) == 0);
    }
    _exit(0);
}

int main(void) {
    for (int round = 0; round < ROUNDS; round++) {
        int to[2], status;
        CHECK(pipe(to) == 0);
        pid_t killer = fork();
        CHECK(killer >= 0);
        if (killer == 0) kills(to[0], round);
        static volatile long before;
        before = 0;
        pid_t child = vfork();
        if (child == 0) {
            pid_t me = getpid();
            struct sigaction old;
            before++;
            if (setpgid(0, 0) != 0 || write(to[1], &me, sizeof me) != sizeof me) _exit(1);
            for (;;) {
                // What is shared with the parent's other threads.
                sigaction(SIGUSR2, NULL, &old);
                before++;
            }
        }
        CHECK(child > 0);
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        CHECK(before > 0);
        expect_exit(killer, 0);
        close(to[0]);
        close(to[1]);
        pthread_t thread;
        CHECK0(pthread_create(&thread, NULL, maps, &round));
        CHECK0(pthread_join(thread, NULL));
    }
    return ok();
}
