// relive: link=pie modes=record,replay,verify
// Code in shared memory that one process writes and another runs, in turns. Not under `run`, which
// leaves several processes to the kernel: see docs/limits.md.
#include "check.h"
#include <sys/mman.h>

enum { PAGE = 4096, LEN = 2 * PAGE };

static int number;

static void put(unsigned char *at, int value) {
    unsigned char load[] = {0xb8, 0, 0, 0, 0, 0xc3}; // mov $value, %eax; ret
    memcpy(load + 1, &value, 4);
    memcpy(at, load, sizeof load);
}

static int call(const unsigned char *code) { return ((int (*)(void))code)(); }

static void between(unsigned char *written, unsigned char *run) {
    int to[2], from[2];
    char byte = 0;
    CHECK(pipe(to) == 0 && pipe(from) == 0);
    put(written, 1);
    CHECK(call(run) == 1);
    pid_t child = fork();
    for (int i = 0; i < 5; i++) {
        number += 10;
        if (child == 0) {
            CHECK(read(to[0], &byte, 1) == 1);
            CHECK(call(run) == number && call(run + PAGE) == number - 1);
            put(written, i);
            CHECK(call(run) == i);
            CHECK(write(from[1], &byte, 1) == 1);
        } else {
            put(written, number);
            put(written + PAGE, number - 1);
            CHECK(call(run) == number);
            CHECK(write(to[1], &byte, 1) == 1 && read(from[0], &byte, 1) == 1);
            CHECK(call(run) == i);
        }
    }
    if (child == 0) _exit(3);
    expect_exit(child, 3);
    for (int i = 0; i < 2; i++) close(to[i]), close(from[i]);
}

static unsigned char *map(int prot, int flags, int file) {
    unsigned char *at = mmap(NULL, LEN, prot, MAP_SHARED | flags, file, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

int main(void) {
    const int writes = PROT_READ | PROT_WRITE;
    int file = memfd_create("code", 0);
    CHECK(file >= 0 && ftruncate(file, LEN) == 0);
    unsigned char *code = map(PROT_READ | PROT_EXEC, 0, file);
    between(map(writes, 0, file), code);
    unsigned char *both = map(writes | PROT_EXEC, 0, file);
    between(both, both);
    between(both, code);
    unsigned char *unnamed = map(writes | PROT_EXEC, MAP_ANONYMOUS, -1);
    between(unnamed, unnamed);
    unsigned char *second = mremap(unnamed, 0, LEN, MREMAP_MAYMOVE);
    CHECK(second != MAP_FAILED);
    between(second, unnamed);
    CHECK(mprotect(second, LEN, PROT_READ) == 0);
    between(unnamed, unnamed);
    CHECK(mprotect(second, LEN, writes) == 0);
    between(second, unnamed);
    return ok();
}
