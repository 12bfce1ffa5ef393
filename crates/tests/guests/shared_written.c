// relive: link=pie timeout=60
// A file that one process maps is changed by another that does not map it, in every way: the map
// shows the written bytes, also in the last page's part behind the end of the file.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <sys/wait.h>
#ifndef FALLOC_FL_ZERO_RANGE
#define FALLOC_FL_ZERO_RANGE 0x10
#endif

#define PAGE 4096L

enum { WRITE, PWRITE, WRITEV, PWRITEV2, SENDFILE, COPY, SPLICE, LATE, PUNCH, ZERO, BEHIND, GAP, WAYS };

static const char *self;
static volatile char *map;

static int source(const char *text) {
    int fd = open("source", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    return fd;
}

// The writer's change; 7 if this file system cannot.
static int change(int fd, int way) {
    struct iovec parts[2] = {{"pa", 2}, {"rts", 3}};
    loff_t in = 1, out = 60;
    off_t from = 2;
    int ends[2];
    CHECK(pipe(ends) == 0 && lseek(fd, 20, SEEK_SET) == 20);
    switch (way) {
    case WRITE: return write(fd, "written", 7) != 7;
    case PWRITE: return pwrite(fd, "at 30", 5, 30) != 5;
    case WRITEV: return writev(fd, parts, 2) != 5;
    case PWRITEV2: return pwritev2(fd, parts, 2, 40, 0) != 5;
    case SENDFILE: return sendfile(fd, source("0123456789"), &from, 5) != 5;
    case COPY: return copy_file_range(source("abcdefghij"), &in, fd, &out, 6, 0) == 6 ? 0 : 7;
    case SPLICE:
        CHECK(write(ends[1], "spliced", 7) == 7);
        out = 70;
        return splice(ends[0], NULL, fd, &out, 7, 0) != 7;
    case LATE:
        // Nothing is there to be moved when it is asked for.
        if (fork() == 0) {
            usleep(20000);
            _exit(write(ends[1], "late", 4) != 4);
        }
        return splice(ends[0], NULL, fd, NULL, 100, 0) != 4;
    case PUNCH: return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 5, 9) ? 7 : 0;
    case ZERO: return fallocate(fd, FALLOC_FL_ZERO_RANGE, 90, 9) ? 7 : 0;
    // Behind the end, in the last page that is mapped.
    case BEHIND: return lseek(fd, 0, SEEK_END) != 100 || write(fd, "behind", 6) != 6;
    case GAP: return pwrite(fd, "far", 3, PAGE + 50) != 3;
    }
    return 8;
}

static void fill(int fd) {
    char text[100];
    memset(text, '.', sizeof text);
    CHECK(ftruncate(fd, 0) == 0 && pwrite(fd, text, 100, 0) == 100);
}

// With `unmaps` the writer is a child that has let its map go; otherwise a program of its own.
static void round_of(int fd, int way, int unmaps) {
    fill(fd);
    CHECK(map[0] == '.' && map[99] == '.');
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (unmaps) {
            CHECK(munmap((void *)map, 2 * PAGE) == 0);
            _exit(change(fd, way));
        }
        char number[8], file[8];
        snprintf(number, sizeof number, "%d", way);
        snprintf(file, sizeof file, "%d", fd);
        execl(self, self, number, file, NULL);
        _exit(9);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 7);
    if (WEXITSTATUS(status) == 7) return;
    char seen[120] = {0};
    for (int i = 0; i < 119; i++) seen[i] = map[i] ? map[i] : '_';
    char want[120] = {0};
    memset(want, '_', 119);
    CHECK(pread(fd, want, 119, 0) >= 100);
    for (int i = 0; i < 119; i++) want[i] = want[i] ? want[i] : '_';
    CHECK(memcmp(seen, want, 119) == 0);
    if (way == GAP) CHECK(map[PAGE + 50] == 'f' && map[PAGE + 49] == 0 && map[PAGE + 53] == 0);
}

int main(int argc, char **argv) {
    if (argc > 2) return change(atoi(argv[2]), atoi(argv[1]));
    self = argv[0];
    for (int prot = PROT_READ; prot <= (PROT_READ | PROT_WRITE); prot += PROT_WRITE) {
        int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
        fill(fd);
        int mapped = prot & PROT_WRITE ? fd : open("file", O_RDONLY);
        map = mmap(NULL, 2 * PAGE, prot, MAP_SHARED, mapped, 0);
        CHECK(map != MAP_FAILED);
        for (int way = 0; way < WAYS; way++)
            for (int unmaps = 0; unmaps < 2; unmaps++) round_of(fd, way, unmaps);
        CHECK(munmap((void *)map, 2 * PAGE) == 0 && close(fd) == 0);
    }
    // Memory without access shows it too, once it has some.
    int fd = open("file", O_RDWR);
    fill(fd);
    map = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(map[20] == '.' && mprotect((void *)map, 2 * PAGE, PROT_NONE) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        execl(self, self, "0", "3", NULL);
        _exit(9);
    }
    CHECK(fd == 3);
    expect_exit(child, 0);
    CHECK(mprotect((void *)map, 2 * PAGE, PROT_READ) == 0 && map[20] == 'w' && map[26] == 'n');
    return ok();
}
