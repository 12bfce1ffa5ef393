// relive: output=free
// Clocks around the birth and death of processes: read before and after fork, vfork and exec,
// by a child that is killed while it reads, and by one that reads until it ends.
#include "check.h"
#include <spawn.h>
#include <sys/mman.h>
#include <time.h>

extern char **environ;

static int64_t ns(void) {
    struct timespec t;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static int64_t reading(int count) {
    int64_t last = ns();
    for (int i = 1; i < count; i++) {
        int64_t now = ns();
        CHECK(now >= last);
        last = now;
    }
    return last;
}

int main(int argc, char **argv) {
    if (argc == 2) {
        CHECK(reading(700) >= atol(argv[1]));
        return 33;
    }
    char text[32];
    for (int round = 0; round < 3; round++) {
        int64_t before = reading(1 + round * 600);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            CHECK(reading(1 + round * 300) >= before);
            _exit(7);
        }
        before = reading(5);
        expect_exit(child, 7);

        child = vfork();
        if (child == 0) {
            volatile int64_t here = ns();
            _exit(here >= before ? 8 : 9);
        }
        CHECK(child > 0);
        before = reading(3);
        expect_exit(child, 8);

        snprintf(text, sizeof text, "%ld", (long)before);
        char *args[] = {argv[0], text, NULL};
        before = reading(2);
        CHECK0(posix_spawn(&child, "/proc/self/exe", NULL, NULL, args, environ));
        before = reading(2);
        expect_exit(child, 33);

        int pipes[2];
        CHECK(pipe(pipes) == 0);
        child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            reading(1000);
            CHECK(write(pipes[1], "x", 1) == 1);
            for (;;) reading(1000);
        }
        char byte;
        CHECK(read(pipes[0], &byte, 1) == 1);
        reading(600);
        CHECK(kill(child, SIGKILL) == 0);
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
        CHECK(close(pipes[0]) == 0 && close(pipes[1]) == 0);
        printf("%ld\n", (long)reading(10));
        fflush(stdout);
    }
    int64_t before = reading(2);
    snprintf(text, sizeof text, "%ld", (long)before);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char *args[] = {argv[0], text, NULL};
        reading(4);
        execv("/proc/self/exe", args);
        CHECK(0);
    }
    expect_exit(child, 33);
    return ok();
}
