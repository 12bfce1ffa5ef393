// relive: threads=yes sketch=yes parallel=refused
// Calls that fail and have written memory all the same, and calls that leave memory alone, with threads beside them: what is there
// afterwards is what the kernel has left there.
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

enum { FILL = 0xa5 };
static unsigned char place[512];

static void fill(void) {
    memset(place, FILL, sizeof place);
}

static void untouched(int from, int to) {
    for (int i = from; i < to; i++) CHECK(place[i] == FILL);
    fill();
}

static void *waits(void *arg) {
    char byte;
    CHECK(read(*(int *)arg, &byte, 1) == 0);
    return arg;
}

static void writes_and_fails(void) {
    int both[2] = {-1, -1};
    CHECK(socketpair(AF_INET, SOCK_STREAM, 0, both) == -1 && errno == EOPNOTSUPP);
    CHECK(both[0] >= 3 && both[1] > both[0]);
    int id = -1;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    // The clock of a process that there is not.
    CHECK(syscall(SYS_timer_create, ~0x3fffff0 << 3 | 2, &event, &id) == -1 && errno == EINVAL);
    CHECK(id >= 0);
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && munmap(pages + 4096, 4096) == 0);
    *pages = 1;
    unsigned char there[2] = {FILL, FILL};
    CHECK(mincore(pages, 8192, there) == -1 && errno == ENOMEM);
    CHECK(there[0] == 1 && there[1] == FILL);
    printf("%d %d %d\n", both[0], both[1], id);
}

static void leaves_alone(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        pause();
        _exit(0);
    }
    fill();
    CHECK(wait4(child, (int *)place, WNOHANG, (struct rusage *)(place + 64)) == 0);
    untouched(0, sizeof place);
    CHECK(syscall(SYS_waitid, P_PID, child, NULL, WEXITED | WNOHANG, place) == 0);
    untouched(0, sizeof place);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    struct timespec wrong = {0, -1};
    CHECK(nanosleep(&wrong, (struct timespec *)place) == -1 && errno == EINVAL);
    untouched(0, sizeof place);
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &wrong, (struct timespec *)place) == EINVAL);
    untouched(0, sizeof place);
    struct pollfd one = {.fd = -1, .revents = 7};
    CHECK(syscall(SYS_poll, &one, 1UL << 29, 0) == -1 && errno == EINVAL && one.revents == 7);
}

// A hole in a file in memory stays one, though it is mapped.
static void stays_a_hole(void) {
    enum { SIZE = 1 << 20 };
    int fd = memfd_create("holes", 0);
    CHECK(fd >= 0 && ftruncate(fd, SIZE) == 0);
    char *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED);
    memset(at, 1, SIZE);
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096 + 100, SIZE - 8192) == 0);
    struct stat st;
    CHECK(fstat(fd, &st) == 0 && st.st_blocks * 512 < 4 * 4096);
    CHECK(lseek(fd, 0, SEEK_HOLE) == 8192);
    CHECK(at[4096 + 99] == 1 && at[4096 + 100] == 0 && at[SIZE - 4096 + 99] == 0 && at[SIZE - 4096 + 100] == 1);
}

int main(void) {
    writes_and_fails();
    leaves_alone();
    stays_a_hole();
    int line[2];
    CHECK(pipe(line) == 0);
    pthread_t thread;
    CHECK0(pthread_create(&thread, NULL, waits, &line[0]));
    writes_and_fails();
    leaves_alone();
    CHECK(close(line[1]) == 0);
    CHECK0(pthread_join(thread, NULL));
    return ok();
}
