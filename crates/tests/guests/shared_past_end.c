// relive: link=pie
// SIGBUS behind the end of a file that is mapped shared: in a map that is longer than the file,
// after the file was cut, with the string instructions of memcpy, and as the end of a process.
#include "check.h"
#include <fcntl.h>
#include <setjmp.h>
#include <sys/mman.h>

static sigjmp_buf back;
static void *where;

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    CHECK(number == SIGBUS && info->si_code == BUS_ADRERR);
    where = info->si_addr;
    siglongjmp(back, 1);
}

int main(void) {
    static const long page = 4096;
    handle(SIGBUS, on_fault, 0);
    int fd = open("mapped", O_CREAT | O_RDWR | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 100) == 0);
    char *p = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(p != MAP_FAILED);
    p[0] = 1;
    p[page - 1] = 2;
    if (sigsetjmp(back, 1) == 0) {
        p[page] = 1;
        CHECK(!"written");
    }
    CHECK(where == p + page);
    volatile char seen = 0;
    if (sigsetjmp(back, 1) == 0) {
        seen = p[2 * page + 7];
        CHECK(!"read");
    }
    CHECK(where == p + 2 * page + 7 && seen == 0);
    CHECK(ftruncate(fd, 2 * page) == 0);
    p[page] = 7;
    CHECK(p[page] == 7);
    if (sigsetjmp(back, 1) == 0) {
        char *to = p;
        size_t n = 4 * (size_t)page;
        __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(5) : "memory");
        CHECK(!"filled");
    }
    CHECK(where == p + 2 * page && p[2 * page - 1] == 5);
    CHECK(ftruncate(fd, 0) == 0);
    if (sigsetjmp(back, 1) == 0) {
        seen = p[0];
        CHECK(!"read");
    }
    CHECK(where == p && ftruncate(fd, page) == 0 && p[0] == 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGBUS, SIG_DFL);
        p[page] = 1;
        _exit(1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    return ok();
}
