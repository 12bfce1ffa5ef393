// relive: timeout=60
// A file is mapped shared, unmapped and removed; the file system gives its inode number to the next
// file, which a child writes. ext4 does so at once (linkers probe file systems like this), tmpfs
// never does: there the child writes just another file.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

enum { ROUNDS = 20, FILES = 8 };

static ino_t probe(const char *name, int flags, int prot) {
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 4096) == 0 && close(fd) == 0);
    fd = open(name, flags);
    CHECK(fd >= 0);
    char *at = mmap(NULL, 4096, prot, MAP_SHARED, fd, 0);
    CHECK(at != MAP_FAILED && at[0] == 0);
    if (prot & PROT_WRITE) memset(at, 'p', 4096);
    struct stat st;
    CHECK(fstat(fd, &st) == 0 && close(fd) == 0);
    CHECK(munmap(at, 4096) == 0 && unlink(name) == 0);
    return st.st_ino;
}

// Writes new files until one has the number, and reads back their content.
static void write_new(ino_t wanted, int round) {
    for (int i = 0; i < FILES; i++) {
        char name[32], text[32], back[32] = "";
        snprintf(name, sizeof name, "new%d.%d", round, i);
        snprintf(text, sizeof text, "round %d file %d\n", round, i);
        int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
        CHECK(fd >= 0);
        struct stat st;
        CHECK(fstat(fd, &st) == 0);
        CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
        CHECK(ftruncate(fd, 4096) == 0);
        CHECK(pread(fd, back, sizeof back - 1, 0) > 0 && strcmp(back, text) == 0);
        CHECK(close(fd) == 0);
        if (st.st_ino == wanted) break;
    }
    _exit(0);
}

int main(void) {
    for (int round = 0; round < ROUNDS; round++) {
        ino_t number = round % 2 ? probe("probe", O_RDWR, PROT_READ | PROT_WRITE)
                                 : probe("probe", O_RDONLY, PROT_READ);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) write_new(number, round);
        expect_exit(child, 0);
    }
    return ok();
}
