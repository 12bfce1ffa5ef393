// relive: link=pie output=free expect="wrote" timeout=60
// The kernel kills a process (its limit of processor time) that changes a file through its map, and one
// that does so by calls; another process only reads the file, through a map: it sees the bytes that
// they wrote last, then and in replay.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define SIZE 40960L

static void maps(void) {
    int fd = open("file", O_RDWR);
    volatile unsigned long *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(fd >= 0 && p != MAP_FAILED);
    for (unsigned long i = 1;; i++) p[i % (SIZE / 8)] += i;
}

static void writes(void) {
    int fd = open("file", O_RDWR);
    CHECK(fd >= 0);
    for (unsigned long i = 1;; i++) {
        CHECK(pwrite(fd, &i, 8, i * 8 % SIZE) == 8);
        // Not more calls than a replay has patience for.
        for (volatile int k = 0; k < 20000; k++) {
        }
    }
}

int main(void) {
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, SIZE) == 0 && close(fd) == 0);
    volatile unsigned long *p = mmap(NULL, SIZE, PROT_READ, MAP_SHARED, open("file", O_RDONLY), 0);
    CHECK(p != MAP_FAILED && p[0] == 0);
    for (int way = 0; way < 2; way++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            struct rlimit second = {1, 1};
            CHECK(munmap((void *)p, SIZE) == 0 && setrlimit(RLIMIT_CPU, &second) == 0);
            way ? writes() : maps();
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        unsigned long sum = 0;
        for (int i = 0; i < SIZE / 8; i++) sum = sum * 17 + p[i];
        CHECK(sum != 0);
        printf("wrote %lx\n", sum);
    }
    return ok();
}
