// relive: threads=yes sketch=yes output=free
// System calls that only answer, in every company that they can be in: readings of clocks before
// and after, signals between them, threads that use the same descriptor, errors, long results.
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 3000 };

static int file;
static volatile sig_atomic_t alarms;
static _Atomic uint64_t seen;

static void on_alarm(int sig) {
    (void)sig;
    // A plain call inside a handler, between two of the program.
    alarms += syscall(SYS_getppid) > 0;
}

static void *seek(void *arg) {
    uint64_t sum = (uintptr_t)arg;
    struct timespec now;
    for (int i = 0; i < ROUNDS; i++) {
        // Where the other threads have left the offset is in no register of this one.
        sum = sum * 31 + (uint64_t)lseek(file, 1, SEEK_CUR);
        if (i % 3 == 0) clock_gettime(CLOCK_MONOTONIC, &now), sum ^= (uint64_t)now.tv_nsec;
        sum += (uint64_t)syscall(SYS_getppid);
        if (i % 5 == 0) sum += __builtin_ia32_rdtsc();
    }
    seen ^= sum;
    return NULL;
}

int main(void) {
    char name[] = "plain-XXXXXX";
    file = mkstemp(name);
    CHECK(file >= 0);
    CHECK(unlink(name) == 0);
    signal(SIGALRM, on_alarm);
    struct itimerval often = {.it_interval = {.tv_usec = 700}, .it_value = {.tv_usec = 700}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    pthread_t threads[3];
    for (uintptr_t i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, seek, (void *)i) == 0);
    seek((void *)7);
    for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    struct itimerval never = {0};
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    CHECK(lseek(file, 0, SEEK_CUR) == 4 * ROUNDS);

    CHECK(lseek(file, -1, SEEK_SET) == -1 && errno == EINVAL);
    CHECK(lseek(-1, 0, SEEK_SET) == -1 && errno == EBADF);
    CHECK(lseek(file, INT64_C(1) << 40, SEEK_SET) == INT64_C(1) << 40);
    CHECK(access("no such file", R_OK) == -1 && errno == ENOENT);
    CHECK(mkdirat(AT_FDCWD, "plain-folder", 0700) == 0 && rmdir("plain-folder") == 0);
    CHECK(getuid() == geteuid() && getgid() == getegid());
    CHECK(syscall(SYS_gettid) == getpid());
    printf("%016llx\nok\n", (unsigned long long)seen);
    return 0;
}
