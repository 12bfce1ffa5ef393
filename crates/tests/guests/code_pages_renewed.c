// relive: link=pie,static
// Pages with code that has run, which then change otherwise than by a write: emptied, moved, grown,
// given back, wiped in a child. They can be written as before, and the written code then runs.
#include "check.h"
#include <sys/mman.h>

enum { PAGE = 4096, PAGES = 4 };

static const int all = PROT_READ | PROT_WRITE | PROT_EXEC;
static int number;

static unsigned char *pages(unsigned char *at, int pages, int flags) {
    unsigned char *got = mmap(at, pages * PAGE, all, MAP_ANONYMOUS | flags, -1, 0);
    CHECK(got != MAP_FAILED);
    return got;
}

static int call(const unsigned char *code) { return ((int (*)(void))code)(); }

// Puts a function there that gives a number of its own, and calls it.
static void renew(unsigned char *code) {
    unsigned char load[] = {0xb8, 0, 0, 0, 0, 0xc3}; // mov $number, %eax; ret
    number++;
    memcpy(load + 1, &number, 4);
    memcpy(code, load, sizeof load);
    CHECK(call(code) == number);
    // Also where it was called before.
    code[1] ^= 0x40;
    CHECK(call(code) == (number ^ 0x40));
}

static void renew_each(unsigned char *code, int pages) {
    for (int i = 0; i < pages; i++) renew(code + i * PAGE);
}

static int any_of(const unsigned char *page) {
    int any = 0;
    for (int i = 0; i < PAGE; i++) any |= page[i];
    return any;
}

static void advised(unsigned char *code, int advice, int empties) {
    renew_each(code, PAGES);
    int last = number ^ 0x40;
    CHECK(madvise(code + PAGE, 2 * PAGE, advice) == 0);
    CHECK(call(code) == last - 3 && call(code + 3 * PAGE) == last);
    for (int i = 1; i < 3; i++) {
        if (empties) CHECK(any_of(code + i * PAGE) == 0);
        renew(code + i * PAGE);
    }
    // Behind something that has been read as zeros, and in one go.
    renew_each(code, PAGES);
    CHECK(madvise(code, PAGES * PAGE, advice) == 0);
    memset(code, 0xc3, PAGES * PAGE);
    renew_each(code, PAGES);
}

static void moved(unsigned char *code, int flags) {
    unsigned char *room = pages(NULL, 2 * PAGES, MAP_PRIVATE);
    renew_each(code, PAGES);
    int last = number ^ 0x40;
    CHECK(mremap(code, PAGES * PAGE, PAGES * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED | flags, room) == room);
    for (int i = 0; i < PAGES; i++) CHECK(call(room + i * PAGE) == last - (PAGES - 1 - i));
    renew_each(room, PAGES);
    if (flags) {
        CHECK(any_of(code) == 0);
        renew_each(code, PAGES);
    }
    munmap(room, 2 * PAGES * PAGE);
}

static void resized(unsigned char *at) {
    unsigned char *code = pages(at, PAGES, MAP_PRIVATE);
    renew_each(code, PAGES);
    int last = number ^ 0x40;
    CHECK(munmap(code + 2 * PAGE, 2 * PAGE) == 0);
    CHECK(mremap(code, 2 * PAGE, PAGES * PAGE, 0) == code);
    CHECK(call(code) == last - 3 && call(code + PAGE) == last - 2);
    renew_each(code, PAGES);
    CHECK(mremap(code, PAGES * PAGE, 2 * PAGE, 0) == code);
    renew_each(code, 2);
    code = mremap(code, 2 * PAGE, 64 * PAGE, MREMAP_MAYMOVE);
    CHECK(code != MAP_FAILED);
    renew_each(code, 64);
    CHECK(munmap(code, 64 * PAGE) == 0);
}

static void protected(unsigned char *code) {
    // A range with a hole behind its first pages: those change all the same.
    CHECK(munmap(code + 3 * PAGE, PAGE) == 0);
    renew_each(code, 3);
    CHECK(mprotect(code, PAGES * PAGE, all) == -1 && errno == ENOMEM);
    renew_each(code, 3);
    CHECK(mprotect(code + PAGE, PAGE, PROT_READ | PROT_EXEC) == 0);
    CHECK(call(code + PAGE) == (number ^ 0x40) - 1);
    CHECK(mprotect(code + PAGE, PAGE, all) == 0);
    renew_each(code, 3);
}

static void inherited(unsigned char *code, int advice) {
    renew_each(code, PAGES);
    if (advice) CHECK(madvise(code, PAGES * PAGE, advice) == 0);
    pid_t child = fork();
    if (child == 0) {
        if (advice) CHECK(any_of(code) == 0);
        renew_each(code, PAGES);
        _exit(7);
    }
    renew_each(code, PAGES);
    expect_exit(child, 7);
    renew_each(code, PAGES);
}

int main(void) {
    // Where code belongs, and high up.
    unsigned char *places[] = {NULL, (unsigned char *)0x200000000000};
    for (int i = 0; i < 2; i++) {
        unsigned char *code = pages(places[i], PAGES, MAP_PRIVATE);
        advised(code, MADV_DONTNEED, 1);
        advised(code, MADV_FREE, 0);
        inherited(code, 0);
        inherited(code, MADV_WIPEONFORK);
        moved(code, MREMAP_DONTUNMAP);
        moved(code, 0);
        resized(places[i]);
        protected(pages(places[i], PAGES, MAP_PRIVATE));
        unsigned char *shared = pages(places[i] ? places[i] + (1 << 24) : NULL, PAGES, MAP_SHARED);
        advised(shared, MADV_REMOVE, 1);
        advised(shared, MADV_DONTNEED, 0);
        moved(shared, 0);
    }
    return ok();
}
