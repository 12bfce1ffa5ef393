// relive: link=pie,static flags="-lm"
// The x87 stack, its control word (rounding and precision), status word, environment and
// 80-bit values through memory.
#include "check.h"
#include <math.h>

static uint16_t get_cw(void) {
    uint16_t cw;
    __asm__ volatile("fnstcw %0" : "=m"(cw));
    return cw;
}
static void set_cw(uint16_t cw) { __asm__ volatile("fldcw %0" : : "m"(cw)); }

// Apart from the rest: the compiler must not keep values on the x87 stack across this.
__attribute__((noinline)) static void stack_and_status(void) {
    // Eight pushes fill the stack; they come back in the other order.
    long double out[8];
    __asm__ volatile("fninit\n\tfld1\n\tfldz\n\tfldpi\n\tfldl2e\n\tfldln2\n\tfldlg2\n\tfldl2t\n\tfld1");
    for (int i = 0; i < 8; i++) __asm__ volatile("fstpt %0" : "=m"(out[i]));
    CHECK(out[0] == 1 && out[6] == 0 && out[7] == 1);
    CHECK(fabsl(out[5] - 3.14159265358979323846L) < 1e-18L);
    CHECK(fabsl(out[1] * out[2] - 1.0L) < 1e-18L); // log2(10) * log10(2)

    uint16_t status;
    __asm__ volatile("fldz\n\tfld1\n\tfcompp\n\tfnstsw %0" : "=a"(status));
    CHECK((status & 0x4500) == 0);
    unsigned char above, equal;
    __asm__ volatile("fld1\n\tfldz\n\tfcomip %%st(1), %%st\n\tseta %0\n\tsete %1\n\tfstp %%st(0)"
                     : "=q"(above), "=q"(equal) : : "cc");
    CHECK(!above && !equal);
    char environment[28];
    __asm__ volatile("fninit\n\tfnstenv %0\n\tfldenv %0" : "+m"(environment));
    CHECK(get_cw() == 0x37f);
}

int main(void) {
    CHECK(get_cw() == 0x37f);
    volatile long double three = 3, seven = 7;
    long results[4];
    for (int mode = 0; mode < 4; mode++) {
        set_cw((uint16_t)(0x37f & ~0xc00) | (uint16_t)(mode << 10));
        long double x = -2.5L;
        __asm__ volatile("fistpll %0" : "=m"(results[mode]) : "t"(x) : "st");
    }
    set_cw(0x37f);
    CHECK(results[0] == -2 && results[1] == -3 && results[2] == -2 && results[3] == -2);
    set_cw(0x07f); // single precision
    volatile long double low = three / seven;
    set_cw(0x37f);
    volatile long double full = three / seven;
    CHECK(low != full && fabsl(low - full) < 1e-7L);
    CHECK(full * seven - three < 1e-18L);

    stack_and_status();
    volatile double angle = 0.5;
    CHECK(fabs(sin(angle) * sin(angle) + cos(angle) * cos(angle) - 1) < 1e-15);
    CHECK(fabsl(expl(logl(10.0L)) - 10.0L) < 1e-15L);
    printf("%.20Lg %.18Lg %La\n", full, expl(1.0L), low);
    return ok();
}
