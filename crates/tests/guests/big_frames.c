// relive: link=pie,static
// Large stack frames, alloca, stack growth page by page, and many arguments.
#include "check.h"
#include <alloca.h>

__attribute__((noinline, noclone)) static long frame(int depth) {
    volatile char large[100000];
    large[0] = (char)depth;
    large[sizeof large - 1] = (char)(depth + 1);
    return depth == 0 ? 0 : frame(depth - 1) + large[0] + large[sizeof large - 1];
}

__attribute__((noinline, noclone)) static long many(long a, long b, long c, long d, long e, long f, long g, long h,
                                                   double x, double y, char i, short j, long double z) {
    return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + (long)(x * y) + i + j + (long)z;
}

struct large_value {
    long v[100];
};
__attribute__((noinline, noclone)) static struct large_value turn(struct large_value in) {
    struct large_value out;
    for (int i = 0; i < 100; i++) out.v[i] = in.v[99 - i];
    return out;
}

int main(void) {
    long want = 0;
    for (int i = 1; i <= 50; i++) want += 2 * i + 1;
    CHECK(frame(50) == want);
    for (size_t n = 1; n < 4000000; n *= 3) {
        char *p = alloca(n);
        memset(p, 1, n);
        CHECK(p[n - 1] == 1);
    }
    CHECK(many(1, 2, 3, 4, 5, 6, 7, 8, 1.5, 4.0, 'a', -1, 2.5L) == 204 + 6 + 97 - 1 + 2);
    struct large_value v;
    for (int i = 0; i < 100; i++) v.v[i] = i;
    v = turn(v);
    CHECK(v.v[0] == 99 && v.v[99] == 0);
    return ok();
}
