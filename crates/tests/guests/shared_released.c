// relive: link=pie
// A file that was mapped shared and is no more is written by processes that never mapped it, and
// mapped again: unmapped, mapped over, shrunk away, moved, gone with an exec, inherited by a child.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PAGE 4096L

static const char *self;

// Appends a text to a file, in a program that was executed or in a child.
static void append(const char *name, const char *text, int executed) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (executed) {
            execl(self, self, name, text, NULL);
            _exit(9);
        }
        int fd = open(name, O_WRONLY | O_APPEND);
        CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
        _exit(0);
    }
    expect_exit(child, 0);
}

static char *map(const char *name, int prot, long len) {
    int fd = open(name, prot & PROT_WRITE ? O_RDWR : O_RDONLY);
    char *p = mmap(NULL, len, prot, MAP_SHARED, fd, 0);
    CHECK(fd >= 0 && p != MAP_FAILED && close(fd) == 0);
    return p;
}

static void make(const char *name, const char *text) {
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
}

// As a script that looks at its log from time to time.
static void rounds(int prot) {
    make("log", "begin\n");
    for (int i = 0; i < 6; i++) {
        char *p = map("log", prot, PAGE);
        printf("%zu %.6s\n", strlen(p), p + strlen(p) - 6);
        CHECK(munmap(p, PAGE) == 0);
        append("log", i % 2 ? "odd..\n" : "even.\n", i % 3 == 0);
    }
}

static void ways(void) {
    make("over", "over.");
    char *p = map("over", PROT_READ | PROT_WRITE, PAGE);
    CHECK(mmap(p, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
    append("over", "1", 0);

    make("shrunk", "shrunk.");
    CHECK(truncate("shrunk", 2 * PAGE) == 0);
    p = map("shrunk", PROT_READ, 2 * PAGE);
    CHECK(munmap(p, PAGE) == 0);
    // Half of it is there still, and goes by moving.
    char *to = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mremap(p + PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to);
    append("shrunk", "2", 1);
    CHECK(to[0] == 0 && munmap(to, PAGE) == 0);
    append("shrunk", "3", 1);
    p = map("shrunk", PROT_READ, 3 * PAGE);
    CHECK(p[2 * PAGE] == '2' && p[2 * PAGE + 1] == '3' && p[2 * PAGE + 2] == 0);
}

// A child inherits the map, and lets it go or not; the parent has none any more.
static void inherited(void) {
    make("inherited", "abc");
    char *p = map("inherited", PROT_READ, PAGE);
    int ends[2], back[2];
    CHECK(pipe(ends) == 0 && pipe(back) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char byte;
        CHECK(p[0] == 'a' && read(ends[0], &byte, 1) == 1 && p[3] == 'd');
        CHECK(munmap(p, PAGE) == 0 && write(back[1], "u", 1) == 1);
        CHECK(read(ends[0], &byte, 1) == 1);
        p = map("inherited", PROT_READ, PAGE);
        CHECK(p[4] == 'e');
        _exit(0);
    }
    CHECK(munmap(p, PAGE) == 0);
    append("inherited", "d", 1);
    char byte;
    CHECK(write(ends[1], "x", 1) == 1 && read(back[0], &byte, 1) == 1);
    append("inherited", "e", 0);
    CHECK(write(ends[1], "x", 1) == 1);
    expect_exit(child, 0);
}

int main(int argc, char **argv) {
    if (argc > 2) {
        int fd = open(argv[1], O_WRONLY | O_APPEND);
        CHECK(fd >= 0 && write(fd, argv[2], strlen(argv[2])) == (ssize_t)strlen(argv[2]));
        return 0;
    }
    self = argv[0];
    rounds(PROT_READ);
    rounds(PROT_READ | PROT_WRITE);
    ways();
    inherited();
    return ok();
}
