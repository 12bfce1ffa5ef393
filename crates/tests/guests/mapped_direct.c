// relive:
// Maps of files that are open with O_DIRECT: reads of such a descriptor need aligned buffers, a
// map does not. One file ends inside of a page, one at its end, one is empty.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

#define SIZE (1 << 20)

static unsigned char bytes[SIZE];

static int open_direct(const char *name, size_t size) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && close(fd) == 0);
    fd = open(name, O_RDWR | O_DIRECT);
    // A file system may have no such way.
    if (fd < 0 && errno == EINVAL) fd = open(name, O_RDWR);
    CHECK(fd >= 0);
    return fd;
}

static void look(const char *name, size_t size, int how) {
    int fd = open_direct(name, size);
    unsigned char *at = mmap(NULL, size ? size : 1, PROT_READ | PROT_WRITE, how, fd, 0);
    CHECK(at != MAP_FAILED && memcmp(at, bytes, size) == 0);
    if (size) at[size - 1] ^= 1;
    CHECK(close(fd) == 0 && munmap(at, size ? size : 1) == 0);
}

int main(void) {
    for (size_t i = 0; i < SIZE; i++) bytes[i] = (unsigned char)(i * 7 + i / 1000);
    static const size_t sizes[] = {0, 1, 4096, 10000, 262144, 300000, SIZE};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        look("private", sizes[i], MAP_PRIVATE);
        look("shared", sizes[i], MAP_SHARED);
    }
    return ok();
}
