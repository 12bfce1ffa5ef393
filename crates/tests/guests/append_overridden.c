// relive: link=pie
// A file that is mapped shared, changed by pwritev2 at an offset although its descriptor appends
// (RWF_NOAPPEND, Linux 6.9), and at its end although the descriptor does not (RWF_APPEND).
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>

#ifndef RWF_NOAPPEND
#define RWF_NOAPPEND 0x20
#endif

enum { PAGE = 4096, SIZE = 3 * PAGE };

int main(void) {
    int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, SIZE) == 0);
    volatile char *p = mmap(NULL, 2 * SIZE, PROT_READ, MAP_SHARED, fd, 0);
    int appends = open("file", O_WRONLY | O_APPEND);
    CHECK(p != MAP_FAILED && appends >= 0);
    struct iovec part = {"text", 4};
    ssize_t n = pwritev2(appends, &part, 1, 100, RWF_NOAPPEND);
    if (n == 4) printf("at its place: %c %d\n", p[100], p[104]);
    else CHECK(n == -1 && errno == EOPNOTSUPP);
    CHECK(pwritev2(appends, &part, 1, 200, 0) == 4);
    printf("appended: %d %c\n", p[200], p[SIZE]);
    CHECK(pwritev2(fd, &part, 1, 300, RWF_APPEND) == 4);
    printf("appended by request: %d %c\n", p[300], p[SIZE + 7]);
    CHECK(lseek(fd, 400, SEEK_SET) == 400 && pwritev2(fd, &part, 1, -1, 0) == 4);
    printf("at the position: %c %ld\n", p[400], (long)lseek(fd, 0, SEEK_CUR));
    return ok();
}
