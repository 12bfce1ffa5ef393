// relive: link=pie
// Files with holes, which are far longer than their content: mapped as a whole, in windows, with
// holes made between maps, and grown by mremap(2). A hole of a tebibyte is no more than a hole.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

#define PAGE 4096L
#define GIB (1L << 30)

static unsigned char *map(int fd, long at, long len) {
    unsigned char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, at);
    CHECK(p != MAP_FAILED);
    return p;
}

static int file(const char *name, long size) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, size) == 0);
    return fd;
}

int main(void) {
    int fd = file("sparse", 6 * GIB + 9);
    CHECK(pwrite(fd, "middle", 6, 3 * GIB - 3) == 6);
    CHECK(pwrite(fd, "last", 4, 6 * GIB + 5) == 4);
    unsigned char *p = map(fd, 0, 6 * GIB + 9);
    CHECK(memcmp(p + 3 * GIB - 3, "middle", 6) == 0 && memcmp(p + 6 * GIB + 5, "last", 4) == 0);
    CHECK(p[0] == 0 && p[5 * GIB] == 0);
    memcpy(p + GIB, "through", 7);
    CHECK(munmap(p, 6 * GIB + 9) == 0);

    // The bytes written through the map are there, and a hole is made over a part of it.
    p = map(fd, GIB - PAGE, 2 * PAGE);
    CHECK(memcmp(p + PAGE, "through", 7) == 0);
    p[0] = 'b';
    CHECK(munmap(p, 2 * PAGE) == 0);
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, GIB + 1, 3 * GIB) == 0);
    p = map(fd, 0, 4 * GIB);
    CHECK(p[GIB - PAGE] == 'b' && p[GIB] == 't' && p[GIB + 1] == 0);
    CHECK(p[3 * GIB - 3] == 0 && p[3 * GIB + 2] == 0);
    // Under a map.
    CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, GIB - PAGE, PAGE) == 0);
    CHECK(p[GIB - PAGE] == 0 && p[GIB] == 't');
    CHECK(munmap(p, 4 * GIB) == 0);
    close(fd);

    // Zeros that were written, and room that was not, are no content either.
    fd = file("zeros", 64 * PAGE);
    static char zeros[16 * 4096];
    CHECK(pwrite(fd, zeros, sizeof zeros, 8 * PAGE) == (long)sizeof zeros);
    CHECK(posix_fallocate(fd, 40 * PAGE, 8 * PAGE) == 0);
    p = map(fd, 0, 64 * PAGE);
    CHECK(p[8 * PAGE] == 0 && p[40 * PAGE] == 0);
    p[41 * PAGE] = 'u';
    CHECK(munmap(p, 64 * PAGE) == 0);
    p = map(fd, 40 * PAGE, 2 * PAGE);
    CHECK(p[PAGE] == 'u' && p[0] == 0);
    CHECK(munmap(p, 2 * PAGE) == 0);
    close(fd);

    fd = file("tebibyte", 1L << 40);
    p = map(fd, 0, 1L << 40);
    CHECK(p[0] == 0 && p[(1L << 40) - 1] == 0);
    p[1L << 39] = 7;
    CHECK(munmap(p, 1L << 40) == 0);
    p = map(fd, (1L << 39) - PAGE, 2 * PAGE);
    CHECK(p[PAGE] == 7 && p[0] == 0);
    // It grows over bytes that another map has written, and over nothing.
    unsigned char *other = map(fd, (1L << 39) + 2 * PAGE, PAGE);
    other[1] = 8;
    CHECK(munmap(other, PAGE) == 0);
    p = mremap(p, 2 * PAGE, 256 * GIB, MREMAP_MAYMOVE);
    CHECK(p != MAP_FAILED && p[PAGE] == 7 && p[3 * PAGE + 1] == 8 && p[200 * GIB] == 0);
    CHECK(munmap(p, 256 * GIB) == 0);
    close(fd);

    // The same without a name; and a file that is read only.
    fd = memfd_create("grows", 0);
    CHECK(fd >= 0 && ftruncate(fd, 300 * PAGE) == 0 && pwrite(fd, "far", 3, 200 * PAGE) == 3);
    p = map(fd, 0, PAGE);
    p = mremap(p, PAGE, 300 * PAGE, MREMAP_MAYMOVE);
    CHECK(p != MAP_FAILED && memcmp(p + 200 * PAGE, "far", 3) == 0 && p[299 * PAGE] == 0);
    CHECK(munmap(p, 300 * PAGE) == 0);
    close(fd);
    fd = open("sparse", O_RDONLY);
    p = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fd, 6 * GIB);
    CHECK(p != MAP_FAILED && memcmp(p + 5, "last", 4) == 0);
    CHECK(munmap(p, 2 * PAGE) == 0);
    close(fd);
    return ok();
}
