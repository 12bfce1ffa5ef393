// relive: threads=yes sketch=yes
// Files that are read and written without the page cache: buffers, lengths and offsets must be whole
// sectors, also where other threads could see the buffers meanwhile.
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/uio.h>

enum { SECTOR = 4096, SECTORS = 4 };

static int supported = 1;

static void *work(void *arg) {
    const char *name = arg;
    int fd = open(name, O_RDWR | O_CREAT | O_DIRECT, 0600);
    if (fd < 0) {
        // Some file systems have none.
        CHECK(errno == EINVAL);
        supported = 0;
        return NULL;
    }
    char *out = aligned_alloc(SECTOR, SECTOR * SECTORS), *in = aligned_alloc(SECTOR, SECTOR * SECTORS);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < SECTOR * SECTORS; i++)
            out[i] = (char)(i / 7 + round);
        CHECK(pwrite(fd, out, SECTOR * 2, 0) == SECTOR * 2);
        struct iovec parts[] = {{out + SECTOR * 3, SECTOR}, {out + SECTOR * 2, SECTOR}};
        CHECK(pwritev(fd, parts, 2, SECTOR * 2) == SECTOR * 2);
        struct iovec places[] = {{in, SECTOR * 2}, {in + SECTOR * 3, SECTOR}, {in + SECTOR * 2, SECTOR}};
        memset(in, 0, SECTOR * SECTORS);
        CHECK(lseek(fd, 0, SEEK_SET) == 0 && readv(fd, places, 3) == SECTOR * SECTORS);
        CHECK(memcmp(in, out, SECTOR * SECTORS) == 0);
        CHECK(pread(fd, in, SECTOR, SECTOR) == SECTOR && memcmp(in, out + SECTOR, SECTOR) == 0);
        CHECK(read(fd, in, SECTOR) == 0);
    }
    CHECK(close(fd) == 0);
    return NULL;
}

int main(void) {
    pthread_t other;
    CHECK0(pthread_create(&other, NULL, work, "one"));
    work("two");
    CHECK0(pthread_join(other, NULL));
    work("three");
    printf("direct: %d\n", supported);
    return ok();
}
