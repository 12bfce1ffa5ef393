// relive: link=pie,static sketch=yes
// Code that changes: a patched immediate, a patched branch, code that patches the instruction
// just ahead of itself, code that rewrites itself in a loop, data and code on one page.
#include "check.h"
#include <sys/mman.h>

enum { PAGE = 4096 };
static unsigned char *code;

static int call(void) { return ((int (*)(void))code)(); }

static void emit(const void *bytes, size_t n) { memcpy(code, bytes, n); }

int main(void) {
    code = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    static const unsigned char load[] = {0xb8, 0, 0, 0, 0, 0xc3}; // mov $imm, %eax; ret
    emit(load, sizeof load);
    for (int i = 0; i < 500; i++) {
        memcpy(code + 1, &i, 4);
        CHECK(call() == i);
    }
    // test %eax: je or jne over a mov, flipped between calls.
    static const unsigned char branch[] = {0x31, 0xc0, 0x85, 0xc0, 0x74, 0x05, 0xb8, 7, 0, 0, 0, 0xc3};
    emit(branch, sizeof branch);
    for (int i = 0; i < 100; i++) {
        code[4] = i % 2 ? 0x75 : 0x74;
        CHECK(call() == (i % 2 ? 7 : 0));
    }
    // movb $0x2a, 1f+1(%rip); jmp 1f; 1: mov $0, %eax; ret: patches the next instruction.
    static const unsigned char ahead[] = {0xc6, 0x05, 0x03, 0, 0, 0, 0x2a, 0xeb, 0x00, 0xb8, 0, 0, 0, 0, 0xc3};
    for (int i = 0; i < 50; i++) {
        emit(ahead, sizeof ahead);
        CHECK(call() == 0x2a);
    }
    // The same without the jump between: the store hits the very next instruction.
    static const unsigned char next[] = {0xc6, 0x05, 0x01, 0, 0, 0, 0x2b, 0xb8, 0, 0, 0, 0, 0xc3};
    for (int i = 0; i < 50; i++) {
        emit(next, sizeof next);
        CHECK(call() == 0x2b);
    }
    // A loop that increments its own immediate: mov $0,%eax; incb imm; dec %ecx; jnz; ret.
    static const unsigned char loop[] = {0xb9, 100, 0, 0, 0, 0xb8, 0, 0, 0, 0, 0xfe, 0x05, 0xf6, 0xff, 0xff, 0xff,
                                         0xff, 0xc9, 0x75, 0xf1, 0xc3};
    emit(loop, sizeof loop);
    CHECK(call() == 99 && code[6] == 100);
    // Data beside code on the same page, written often.
    emit(load, sizeof load);
    volatile int *data = (volatile int *)(code + 2048);
    for (int i = 0; i < 2000; i++) {
        *data = i;
        if (i % 100 == 0) CHECK(call() == 0 && *data == i);
    }
    // An instruction across a page border, each half changed in turn.
    unsigned char *border = code + PAGE - 3;
    memcpy(border, load, sizeof load);
    int (*across)(void) = (int (*)(void))border;
    CHECK(across() == 0);
    border[1] = 5;
    CHECK(across() == 5);
    border[4] = 1;
    CHECK(across() == 0x1000005);
    // A store from the first page that changes code on both, itself too: incl (%rdi); mov $7, %eax; ret
    // and the last bytes of a loaded constant on the second page.
    static const unsigned char both[] = {0x48, 0x8d, 0x05, 0, 0, 0, 0, 0xff, 0x07, 0xb8, 7, 0, 0, 0, 0xc3};
    unsigned char *store = code + PAGE - 2 - (int)sizeof both;
    memset(code, 0x90, 2 * PAGE);
    memcpy(store, both, sizeof both);
    memcpy(code + PAGE - 2, load, sizeof load);
    int (*stores)(void *) = (int (*)(void *))store;
    for (int i = 0; i < 300; i++) {
        CHECK(stores(code + PAGE - 1) == 7);
        CHECK(((int (*)(void))(code + PAGE - 2))() == i + 1);
    }
    // A page that goes away and comes back with other code at the same place.
    for (int i = 0; i < 20; i++) {
        CHECK(mmap(code, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == code);
        emit(load, sizeof load);
        code[1] = (unsigned char)i;
        CHECK(call() == i);
    }
    return ok();
}
