// relive:
// 256 MiB below 2.25 GiB (AddressSanitizer's low shadow), and executable memory at 64 MiB:
// the one works alone, and the other after it was given back.
#include "check.h"
#include <sys/mman.h>

#define SHADOW ((char *)0x7fff7000)
#define SIZE 0x10000000ul
#define CODE ((unsigned char *)0x4100000)

static int call(void) { return ((int (*)(void))CODE)(); }

static void with_code(int value) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    CHECK(mmap(CODE, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, flags, -1, 0) == CODE);
    unsigned char code[] = {0xb8, (unsigned char)value, 0, 0, 0, 0xc3}; // mov eax, value; ret
    memcpy(CODE, code, sizeof code);
    for (int i = 0; i < 100; i++) CHECK(call() == value);
    CHECK(munmap(CODE, 4096) == 0);
}

int main(void) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
    CHECK(mmap(SHADOW, SIZE, PROT_READ | PROT_WRITE, flags, -1, 0) == SHADOW);
    for (size_t at = 0; at < SIZE; at += 1 << 20) {
        CHECK(SHADOW[at] == 0);
        SHADOW[at] = (char)(at >> 20);
    }
    // The gap that AddressSanitizer protects, and its high shadow.
    char *gap = (char *)0x8fff7000, *high = (char *)0x02008fff7000;
    CHECK(mmap(gap, (size_t)(high - gap), PROT_NONE, flags, -1, 0) == gap);
    size_t size = 0x10007fff8000 - (size_t)high;
    CHECK(mmap(high, size, PROT_READ | PROT_WRITE, flags, -1, 0) == high);
    high[size / 2] = 7;
    CHECK(high[size / 2] == 7 && high[size - 1] == 0);
    for (size_t at = 0; at < SIZE; at += 1 << 20) CHECK(SHADOW[at] == (char)(at >> 20));
    CHECK(munmap(SHADOW, SIZE) == 0);
    with_code(42);
    with_code(43);
    puts("ok");
    return 0;
}
