// relive: link=pie,static
// A file that is mapped shared grows, and its map with it: where it is, by moving, and under a second
// name. Bytes written to the file show in the map and the other way round, in a child too.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PAGE 4096L

static int fd;

static void put(long at, int value) {
    char byte = (char)value;
    CHECK(pwrite(fd, &byte, 1, at) == 1);
}

static int get(long at) {
    char byte = 0;
    CHECK(pread(fd, &byte, 1, at) == 1);
    return byte;
}

int main(void) {
    fd = open("grows", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 3 * PAGE) == 0);
    // Room for it to grow where it is.
    char *room = mmap(NULL, 16 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *p = mmap(room, 3 * PAGE, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
    CHECK(p == room && munmap(room + 3 * PAGE, 13 * PAGE) == 0);
    CHECK(ftruncate(fd, 4 * PAGE) == 0 && mremap(p, 3 * PAGE, 4 * PAGE, 0) == p);
    put(0, 7);
    put(3 * PAGE, 8);
    CHECK(p[0] == 7 && p[3 * PAGE] == 8);
    CHECK(mprotect(p, 4 * PAGE, PROT_READ | PROT_WRITE) == 0);
    p[3 * PAGE + 1] = 9;
    CHECK(get(3 * PAGE + 1) == 9);

    // Part of it moves away and grows; then the file does.
    char *q = mmap(NULL, 64 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mremap(p + 2 * PAGE, 2 * PAGE, 20 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, q) == q);
    CHECK(ftruncate(fd, 22 * PAGE) == 0 && q[PAGE] == 8);
    put(21 * PAGE, 10);
    CHECK(q[19 * PAGE] == 10);

    char *second = mremap(q, 0, 30 * PAGE, MREMAP_MAYMOVE);
    CHECK(second != MAP_FAILED && second != q && ftruncate(fd, 32 * PAGE) == 0);
    put(31 * PAGE, 11);
    CHECK(second[29 * PAGE] == 11);
    pid_t child = fork();
    if (child == 0) {
        second[29 * PAGE] = 12;
        put(21 * PAGE, 13);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(get(31 * PAGE) == 12 && q[19 * PAGE] == 13 && second[19 * PAGE] == 13);
    return ok();
}
