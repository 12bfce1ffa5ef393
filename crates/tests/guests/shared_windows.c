// relive: link=pie
// A file is written and read through one window after the other, never all of it at once: the content
// of a window was written through an earlier one, by a call while it was not mapped, or by another
// process through a window of its own.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PAGE 4096L
#define WINDOW (16 * PAGE)
#define WINDOWS 24L

static int fd;

static unsigned char *window(long at, long len) {
    unsigned char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, at);
    CHECK(p != MAP_FAILED);
    return p;
}

static unsigned char value(long at, int round) {
    return (unsigned char)(at * 31 + (at >> 9) * 7 + round);
}

static void fill(long start, long end, int round) {
    for (long at = start; at < end; at += WINDOW) {
        unsigned char *p = window(at, WINDOW);
        for (long k = 0; k < WINDOW; k += 64)
            p[k] = value(at + k, round);
        CHECK(munmap(p, WINDOW) == 0);
    }
}

// Windows of another size, at other places.
static void look(long start, long end, int round) {
    for (long at = start; at < end; at += 5 * PAGE) {
        long len = end - at < 5 * PAGE ? end - at : 5 * PAGE;
        unsigned char *p = window(at, len);
        for (long k = 0; k < len; k += 64)
            CHECK(p[k] == value(at + k, round));
        CHECK(munmap(p, len) == 0);
    }
}

int main(void) {
    fd = open("windows", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, WINDOWS * WINDOW) == 0);
    look(0, 0, 0);
    unsigned char *p = window(3 * WINDOW, WINDOW);
    CHECK(p[0] == 0 && p[WINDOW - 1] == 0);
    CHECK(munmap(p, WINDOW) == 0);
    for (int round = 1; round < 3; round++) {
        fill(0, WINDOWS * WINDOW, round);
        look(0, WINDOWS * WINDOW, round);
    }

    // By calls, where nothing is mapped and where another window is.
    unsigned char *kept = window(0, 2 * PAGE);
    CHECK(pwrite(fd, "call", 4, 5 * WINDOW - 2) == 4);
    CHECK(pwrite(fd, "seen", 4, PAGE + 1) == 4);
    CHECK(kept[PAGE + 1] == 's' && kept[PAGE + 4] == 'n' && kept[0] == value(0, 2));
    p = window(4 * WINDOW, 2 * WINDOW);
    CHECK(p[WINDOW - 2] == 'c' && p[WINDOW + 1] == 'l' && p[0] == value(4 * WINDOW, 2));
    // Two windows over the same place, and one that is not touched by the other.
    unsigned char *over = window(5 * WINDOW, WINDOW);
    over[9] = 200;
    CHECK(p[WINDOW + 9] == 200 && kept[PAGE + 1] == 's');
    CHECK(munmap(over, WINDOW) == 0 && munmap(p, 2 * WINDOW) == 0);

    // Cut and grown where no process maps it: its content is gone.
    CHECK(ftruncate(fd, 6 * WINDOW + 100) == 0 && ftruncate(fd, WINDOWS * WINDOW) == 0);
    p = window(6 * WINDOW, 2 * WINDOW);
    CHECK(p[64] == value(6 * WINDOW + 64, 2) && p[128] == 0 && p[WINDOW] == 0);
    CHECK(munmap(p, 2 * WINDOW) == 0);

    // Other processes, each with its own windows, by turns.
    int turn[2];
    CHECK(pipe(turn) == 0);
    for (int child = 0; child < 2; child++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            fill((8 + 4 * child) * WINDOW, (12 + 4 * child) * WINDOW, 5 + child);
            _exit(write(turn[1], "x", 1) != 1);
        }
    }
    char byte;
    CHECK(read(turn[0], &byte, 1) == 1 && read(turn[0], &byte, 1) == 1);
    look(8 * WINDOW, 12 * WINDOW, 5);
    look(12 * WINDOW, 16 * WINDOW, 6);
    int status;
    CHECK(wait(&status) > 0 && status == 0 && wait(&status) > 0 && status == 0);
    CHECK(kept[0] == value(0, 2) && kept[PAGE + 2] == 'e');
    return ok();
}
