// relive: link=pie,static
// Code that reaches memory through a file of the program's own making, mapped executable,
// replaced on disk and mapped again; and an executable mapping that grows over two files.
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { PAGE = 4096 };

static void write_code(const char *name, int value) {
    unsigned char code[PAGE];
    memset(code, 0xcc, sizeof code);
    code[0] = 0xb8;
    memcpy(code + 1, &value, 4);
    code[5] = 0xc3;
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    CHECK(fd >= 0 && write(fd, code, PAGE) == PAGE && close(fd) == 0);
}

static int (*map(const char *name, void *at, int flags))(void) {
    int fd = open(name, O_RDONLY);
    void *p = mmap(at, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | flags, fd, 0);
    CHECK(fd >= 0 && p != MAP_FAILED && close(fd) == 0);
    return (int (*)(void))p;
}

int main(void) {
    for (int i = 0; i < 10; i++) {
        write_code("code", i);
        int (*f)(void) = map("code", NULL, 0);
        CHECK(f() == i && f() == i);
        write_code("other", 100 + i);
        CHECK(map("other", (void *)f, MAP_FIXED) == f && f() == 100 + i);
        CHECK(munmap((void *)f, PAGE) == 0);
    }
    CHECK(unlink("code") == 0 && unlink("other") == 0);
    return ok();
}
