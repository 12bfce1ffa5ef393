// relive: link=pie,nopie,static
// Jump tables, computed goto, function pointers, indirect tail calls, mutual and deep
// recursion.
#include "check.h"

__attribute__((noinline)) static int dense(int n) {
    switch (n) {
    case 0: return 11;
    case 1: return 7;
    case 2: return n * 31;
    case 3: return 5 - n;
    case 4: return 12345;
    case 5: return n << 9;
    case 6: return -n;
    case 7: return n ^ 0x55;
    case 8: return 3;
    default: return 0;
    }
}

// A bytecode machine with computed goto: sums 1 to n.
static long machine(const unsigned char *code, long n) {
    static const void *const table[] = {&&push_n, &&loop, &&halt, &&nop};
    long sum = 0, counter = 0;
    goto *table[*code++];
push_n:
    counter = n;
    goto *table[*code++];
loop:
    sum += counter--;
    code -= counter > 0;
    goto *table[*code++];
nop:
    goto *table[*code++];
halt:
    return sum;
}

typedef long (*step_fn)(long, long);
static step_fn steps[3];
static long step_a(long n, long acc) { return n == 0 ? acc : steps[n % 3](n - 1, acc + n); }
static long step_b(long n, long acc) { return n == 0 ? acc : steps[n % 3](n - 1, acc ^ n); }
static long step_c(long n, long acc) { return n == 0 ? acc : steps[n % 3](n - 1, acc * 3); }

__attribute__((noinline)) static int is_odd(int n);
__attribute__((noinline, noclone)) static int is_even(int n) { return n == 0 ? 1 : is_odd(n - 1); }
static int is_odd(int n) { return n == 0 ? 0 : is_even(n - 1); }

__attribute__((noinline, noclone)) static long deep(long n) {
    volatile long here = n;
    return n == 0 ? 0 : deep(n - 1) + here % 3;
}

static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

int main(void) {
    long sum = 0;
    for (int i = 0; i < 20000; i++) sum += dense(i % 10);
    CHECK(sum == 2000L * (11 + 7 + 62 + 2 + 12345 + 2560 - 6 + (7 ^ 0x55) + 3));
    static const unsigned char code[] = {0, 1, 3, 3, 2};
    CHECK(machine(code, 1000) == 1000 * 1001 / 2);
    steps[0] = step_a;
    steps[1] = step_b;
    steps[2] = step_c;
    long want = 0;
    int which = 0; // step_a starts; each later step was chosen by the n before it
    for (long n = 3000; n > 0; n--) {
        want = which == 0 ? want + n : which == 1 ? want ^ n : (long)((unsigned long)want * 3);
        which = n % 3;
    }
    CHECK(step_a(3000, 0) == want);
    CHECK(is_even(100000) && !is_odd(5000 * 2));
    CHECK(deep(30000) == 30000);
    int numbers[1000];
    unsigned seed = 1;
    for (int i = 0; i < 1000; i++) numbers[i] = (int)((seed = seed * 1103515245 + 12345) >> 8 & 0xffff);
    qsort(numbers, 1000, sizeof *numbers, compare);
    for (int i = 1; i < 1000; i++) CHECK(numbers[i - 1] <= numbers[i]);
    return ok();
}
