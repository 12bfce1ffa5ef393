// relive: link=pie
// Code at the end of a file that is mapped shared and executable: instructions that end with it are executed, one that goes on behind
// it raises SIGBUS there, and so does a jump behind it.
#include "check.h"
#include <fcntl.h>
#include <setjmp.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

static sigjmp_buf back;
static char *where;

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    CHECK(number == SIGBUS && info->si_code == BUS_ADRERR);
    where = info->si_addr;
    siglongjmp(back, 1);
}

static void faults(char *code) {
    where = NULL;
    if (sigsetjmp(back, 1) == 0) {
        ((void (*)(void))code)();
        CHECK(!"executed");
    }
}

int main(void) {
    static const char load[] = "\xb8\x05\0\0\0\xc3"; // mov $5, %eax; ret
    handle(SIGBUS, on_fault, 0);
    int fd = open("mapped", O_CREAT | O_RDWR | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, PAGE) == 0);
    char *map = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED);
    memset(map, 0x90, PAGE);
    memcpy(map + PAGE - 6, load, 6);
    for (int i = 0; i < 3; i++) CHECK(((int (*)(void))(map + PAGE - 6))() == 5);
    CHECK(((int (*)(void))(map + PAGE - 100))() == 5);
    memcpy(map + PAGE - 3, load, 3);
    faults(map + PAGE - 3);
    CHECK(where == map + PAGE);
    faults(map + PAGE);
    CHECK(where == map + PAGE);
    faults(map + 2 * PAGE + 5);
    CHECK(where == map + 2 * PAGE + 5);
    memset(map, 0x90, PAGE);
    faults(map + PAGE - 40);
    CHECK(where == map + PAGE);
    CHECK(ftruncate(fd, 2 * PAGE) == 0);
    memcpy(map + PAGE, load, 6);
    CHECK(((int (*)(void))(map + PAGE - 40))() == 5);
    unlink("mapped");
    ok();
}
