// relive: timeout=60
// Thousands of shared files, one after the other: each is mapped, written through the map, read back
// and given up. A browser passes pictures on like this.
#include "check.h"
#include <sys/mman.h>
#include <sys/wait.h>

static void one(int i) {
    int fd = memfd_create("many", 0);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0);
    int *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED && p[0] == 0);
    p[i % 1024] = i + 1;
    int got = 0;
    CHECK(pread(fd, &got, 4, i % 1024 * 4) == 4 && got == i + 1);
    CHECK(munmap(p, 4096) == 0 && close(fd) == 0);
}

int main(void) {
    for (int i = 0; i < 9000; i++) one(i);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 100; i++) one(i);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    return ok();
}
