// relive: link=pie timeout=60
// A file that one process maps is cut by another, which does not map it: by its descriptor, by its
// name, by opening it anew. The map ends where the file does, until it grows again; then it shows
// zeros.
#include "check.h"
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define PAGE 4096L

enum { FTRUNCATE, TRUNCATE, OPEN, CREAT, OPENAT, WAYS };

static sigjmp_buf back;
static const char *self;

static void fault(int signo, siginfo_t *info, void *context) {
    (void)signo;
    (void)context;
    siglongjmp(back, info->si_code == BUS_ADRERR ? 1 : 2);
}

// The byte at an address; -1: nothing.
static int at(volatile char *p) {
    if (sigsetjmp(back, 1)) return -1;
    return *p;
}

static int cut(int way, long size) {
    int fd = -1;
    switch (way) {
    case FTRUNCATE:
        fd = open("cut", O_RDWR);
        return ftruncate(fd, size);
    case TRUNCATE: return truncate("cut", size);
    case OPEN: fd = open("cut", O_WRONLY | O_TRUNC); break;
    case CREAT: fd = creat("cut", 0600); break;
    case OPENAT: fd = openat(open(".", O_DIRECTORY), "cut", O_CREAT | O_TRUNC | O_RDWR, 0600); break;
    }
    return fd < 0 || ftruncate(fd, size) != 0;
}

static void other(int way, long size) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char number[8], length[16];
        snprintf(number, sizeof number, "%d", way);
        snprintf(length, sizeof length, "%ld", size);
        execl(self, self, number, length, NULL);
        _exit(9);
    }
    expect_exit(child, 0);
}

int main(int argc, char **argv) {
    if (argc > 2) return cut(atoi(argv[1]), atol(argv[2])) != 0;
    self = argv[0];
    struct sigaction action = {.sa_sigaction = fault, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGBUS, &action, NULL) == 0);
    char page[PAGE];
    memset(page, 'x', PAGE);
    for (int way = 0; way < WAYS; way++) {
        int fd = open("cut", O_RDWR | O_CREAT | O_TRUNC, 0600);
        for (int i = 0; i < 3; i++) CHECK(write(fd, page, PAGE) == PAGE);
        volatile char *p = mmap(NULL, 3 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
        CHECK(p != MAP_FAILED && close(fd) == 0 && p[0] == 'x' && p[3 * PAGE - 1] == 'x');
        // An open file that is cut begins anew; the others keep a part.
        int kept = way == FTRUNCATE || way == TRUNCATE ? 'x' : 0;
        other(way, PAGE + 10);
        CHECK(at(p + PAGE + 9) == kept && at(p + PAGE + 10) == 0 && at(p + 2 * PAGE) == -1);
        other(way, 0);
        CHECK(at(p) == -1 && at(p + PAGE) == -1 && at(p + 3 * PAGE - 1) == -1);
        other(way, 2 * PAGE + 1);
        CHECK(at(p) == 0 && at(p + PAGE + 9) == 0 && at(p + 2 * PAGE) == 0);
        CHECK(munmap((void *)p, 3 * PAGE) == 0);
    }
    return ok();
}
