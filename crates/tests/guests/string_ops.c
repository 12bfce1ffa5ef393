// relive: link=pie,static
// rep movs, stos, lods, scas and cmps at all widths, with both directions, with counts of
// zero, with overlap, across pages, and with segment-free 32-bit addresses.
#include "check.h"

static unsigned char from[20000], to[20000], want[20000];

static void copy_back(size_t n) {
    void *s = from + n - 1, *d = to + n - 1;
    __asm__ volatile("std\n\trep movsb\n\tcld" : "+S"(s), "+D"(d), "+c"(n) : : "memory", "cc");
    CHECK(n == 0 && s == from - 1 && d == to - 1);
}

int main(void) {
    for (size_t i = 0; i < sizeof from; i++) from[i] = (unsigned char)(i * 7 + i / 256);
    for (size_t n = 0; n < 9000; n = n * 3 + 1) {
        memset(to, 0, sizeof to);
        copy_back(n);
        CHECK(memcmp(from, to, n) == 0 && to[n] == 0);
        memset(to, 0, sizeof to);
        void *s = from + 3, *d = to + 5;
        size_t count = n / 8;
        __asm__ volatile("rep movsq" : "+S"(s), "+D"(d), "+c"(count) : : "memory");
        CHECK(memcmp(from + 3, to + 5, n / 8 * 8) == 0 && to[5 + n / 8 * 8] == 0);
        d = to;
        count = n / 4;
        __asm__ volatile("rep stosl" : "+D"(d), "+c"(count) : "a"(0x04030201) : "memory");
        for (size_t i = 0; i < n / 4 * 4; i++) CHECK(to[i] == i % 4 + 1);
    }
    // Overlap by one byte is a fill.
    to[0] = 0xab;
    void *s = to, *d = to + 1;
    size_t count = 5000;
    __asm__ volatile("rep movsb" : "+S"(s), "+D"(d), "+c"(count) : : "memory");
    memset(want, 0xab, sizeof want);
    CHECK(memcmp(to, want, 5001) == 0);

    memset(to, 1, sizeof to);
    to[777] = 0;
    d = to;
    count = -1;
    unsigned char equal;
    __asm__ volatile("repne scasb\n\tsete %2" : "+D"(d), "+c"(count), "=q"(equal) : "a"(0) : "memory", "cc");
    CHECK(equal && (unsigned char *)d == to + 778 && count == (size_t)-1 - 778);

    memcpy(want, from, 1000);
    want[600] ^= 1;
    s = from;
    d = want;
    count = 500;
    __asm__ volatile("repe cmpsw\n\tsete %3" : "+S"(s), "+D"(d), "+c"(count), "=q"(equal) : : "memory", "cc");
    CHECK(!equal && (unsigned char *)s == from + 602 && count == 199);
    // A count of zero leaves the flags of the instruction before.
    count = 0;
    __asm__ volatile("cmpl %%eax, %%eax\n\trepe cmpsb\n\tsete %3"
                     : "+S"(s), "+D"(d), "+c"(count), "=q"(equal) : : "memory", "cc");
    CHECK(equal && (unsigned char *)s == from + 602);
    unsigned long loaded = 0;
    s = from + 8;
    __asm__ volatile("lodsq" : "+S"(s), "=a"(loaded) : : "memory");
    CHECK(memcmp(&loaded, from + 8, 8) == 0 && (unsigned char *)s == from + 16);
    // An unprefixed step backwards.
    d = to + 100;
    __asm__ volatile("std\n\tstosw\n\tcld" : "+D"(d) : "a"(0x5aa5) : "memory", "cc");
    CHECK((unsigned char *)d == to + 98 && to[100] == 0xa5 && to[101] == 0x5a);
    return ok();
}
