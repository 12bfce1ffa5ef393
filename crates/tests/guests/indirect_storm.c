// relive: link=pie,nopie
// Many indirect targets from few sites and few targets from many sites, calls whose returns
// do not match, so that every prediction table of a translator misses.
#include "check.h"

#define F1(n) __attribute__((noinline, noclone)) static unsigned f##n(unsigned x) { return x * (2 * n + 1) + n; }
#define F8(n) F1(n##0) F1(n##1) F1(n##2) F1(n##3) F1(n##4) F1(n##5) F1(n##6) F1(n##7)
F8(1) F8(2) F8(3) F8(4) F8(5) F8(6) F8(7) F8(8) F8(9) F8(10) F8(11) F8(12) F8(13) F8(14) F8(15) F8(16)
#define P8(n) f##n##0, f##n##1, f##n##2, f##n##3, f##n##4, f##n##5, f##n##6, f##n##7
typedef unsigned (*fn)(unsigned);
static const fn table[128] = {P8(1), P8(2),  P8(3),  P8(4),  P8(5),  P8(6),  P8(7),  P8(8),
                              P8(9), P8(10), P8(11), P8(12), P8(13), P8(14), P8(15), P8(16)};

int main(void) {
    unsigned multiplier[128], addend[128];
    for (int i = 0; i < 128; i++) {
        unsigned n = (unsigned)(i / 8 + 1) * 10 + (unsigned)i % 8;
        multiplier[i] = 2 * n + 1;
        addend[i] = n;
    }
    unsigned x = 1, want = 1, index = 0;
    for (int round = 0; round < 60000; round++) {
        index = (index * 1103515245 + 12345) & 0x7fffffff;
        unsigned i = index >> 16 & 127;
        x = table[i](x);
        want = want * multiplier[i] + addend[i];
    }
    CHECK(x == want);
    for (int i = 0; i < 5000; i++) x = table[0](x) + table[64](x) + table[127](x);
    for (int i = 0; i < 5000; i++)
        want = (want * multiplier[0] + addend[0]) + (want * multiplier[64] + addend[64]) + (want * multiplier[127] + addend[127]);
    CHECK(x == want);
    return ok();
}
