// relive: output=free threads=yes sketch=yes parallel=refused timeout=120
// One process writes a file that another maps and reads at the same time, and others map it and
// let it go meanwhile: a replay's readers see the same content.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { ROUNDS = 200, PAGE = 4096 };

static const char *self;

static int writer(int first) {
    int fd = open("racy", O_WRONLY);
    CHECK(fd >= 0);
    for (unsigned i = 1; i <= ROUNDS; i++) {
        unsigned word = i * 2 + first;
        if (i % 50 == 0) CHECK(ftruncate(fd, 0) == 0 && ftruncate(fd, PAGE) == 0);
        CHECK(pwrite(fd, &word, 4, 64 * first) == 4);
        CHECK(pwrite(fd, &word, 4, 8 + 64 * first) == 4);
    }
    return 0;
}

// Maps, looks, unmaps; prints a sum of all that it saw.
static int visitor(int me) {
    unsigned long sum = 0;
    for (int i = 0; i < ROUNDS; i++) {
        int fd = open("racy", O_RDONLY);
        volatile unsigned *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
        CHECK(p != MAP_FAILED && close(fd) == 0);
        // Read by the kernel: the file may be cut at this moment.
        unsigned words[64];
        int to = open("sink", O_RDWR | O_CREAT, 0600);
        if (pwrite(to, (void *)p, 256, 0) == 256 && pread(to, words, 256, 0) == 256)
            for (int k = 0; k < 64; k++) sum = sum * 31 + words[k];
        CHECK(close(to) == 0 && munmap((void *)p, PAGE) == 0);
    }
    printf("visitor %d: %lx\n", me, sum);
    return 0;
}

static pid_t start(const char *role) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execl(self, self, role, NULL);
        _exit(9);
    }
    return child;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        int role = atoi(argv[1]);
        return role < 2 ? writer(role) : visitor(role);
    }
    self = argv[0];
    int fd = open("racy", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 2 * PAGE) == 0);
    pid_t children[4];
    const char *roles[4] = {"0", "1", "2", "3"};
    for (int i = 0; i < 4; i++) children[i] = start(roles[i]);
    // Page 0 may be cut away under it: only the kernel looks there.
    volatile unsigned *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    int ends[2];
    CHECK(p != MAP_FAILED && pipe(ends) == 0);
    unsigned long sum = 0, faults = 0;
    for (int i = 0; i < ROUNDS; i++) {
        unsigned words[32] = {0};
        if (write(ends[1], (void *)p, 128) == 128)
            CHECK(read(ends[0], words, 128) == 128);
        else
            faults++;
        for (int k = 0; k < 32; k++) sum = sum * 31 + words[k];
    }
    for (int i = 0; i < 4; i++) expect_exit(children[i], 0);
    printf("%lx %lu %u %u\n", sum, faults, p[0], p[16]);
    return ok();
}
