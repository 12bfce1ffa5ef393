// The recursion whose whole cost is calls and returns, three times. Compiled with -O1: at -O2
// the compiler turns most of the calls into a loop.
#include <stdio.h>

static long fib(long n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

int main(void) {
    volatile long n = 38;
    for (int i = 0; i < 3; i++) printf("%ld\n", fib(n));
    return 0;
}
