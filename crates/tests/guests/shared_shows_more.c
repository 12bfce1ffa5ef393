// relive: link=pie
// A map of a file grows over bytes that another process has written there, while it was not mapped; and
// over a part that was cut away and grows again. One without access shows it too, once it has some.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PAGE 4096L

static const char *self;

// Another program writes a text at an offset, or makes the file so long.
static void other(const char *text, long at) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char number[16];
        snprintf(number, sizeof number, "%ld", at);
        execl(self, self, text, number, NULL);
        _exit(9);
    }
    expect_exit(child, 0);
}

static volatile char *grow(volatile char *p, long old, long len, int flags) {
    p = mremap((void *)p, old, len, MREMAP_MAYMOVE | flags);
    CHECK(p != MAP_FAILED);
    return p;
}

int main(int argc, char **argv) {
    if (argc > 2) {
        int fd = open("more", O_RDWR);
        long at = atol(argv[2]), len = strlen(argv[1]);
        return len ? pwrite(fd, argv[1], len, at) != len : ftruncate(fd, at) != 0;
    }
    self = argv[0];
    int fd = open("more", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 8 * PAGE) == 0);
    volatile char *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED && p[0] == 0);
    other("unseen", PAGE + 5);
    p = grow(p, PAGE, 2 * PAGE, 0);
    CHECK(p[PAGE + 5] == 'u' && p[PAGE + 10] == 'n' && p[PAGE + 11] == 0);

    // By the mapping process itself, and under a second name.
    CHECK(pwrite(fd, "own", 3, 2 * PAGE) == 3);
    volatile char *second = grow(p, 0, 3 * PAGE, 0);
    CHECK(second != p && second[2 * PAGE] == 'o' && second[PAGE + 5] == 'u');
    CHECK(munmap((void *)second, 3 * PAGE) == 0);

    // It is cut where no process maps it, and grows again.
    other("gone", 3 * PAGE + 7);
    other("", PAGE + 6);
    p = grow(p, 2 * PAGE, 5 * PAGE, 0);
    CHECK(p[PAGE + 5] == 'u' && p[PAGE + 6] == 0);
    other("", 5 * PAGE);
    CHECK(p[PAGE + 7] == 0 && p[2 * PAGE] == 0 && p[3 * PAGE + 7] == 0);

    CHECK(mprotect((void *)p, 5 * PAGE, PROT_NONE) == 0);
    other("hidden", 5 * PAGE - 3);
    p = grow(p, 5 * PAGE, 6 * PAGE, 0);
    CHECK(mprotect((void *)p, 6 * PAGE, PROT_READ) == 0);
    CHECK(p[5 * PAGE - 3] == 'h' && p[5 * PAGE] == 'd' && p[5 * PAGE + 2] == 'n');
    return ok();
}
