// relive: link=pie,static flags="-lm"
// Plain computing: hash, sort, matrix, recursion, sieve, bytes, big numbers; the results are printed.
#include "check.h"
#include <math.h>

static uint32_t rotate(uint32_t x, int n) { return x << n | x >> (32 - n); }

// A Feistel mixer over 64 rounds: shifts, adds, table reads.
static uint32_t mix(const unsigned char *data, size_t n) {
    uint32_t a = 0x67452301, b = 0xefcdab89, table[256];
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c & 1 ? 0xedb88320u ^ c >> 1 : c >> 1;
        table[i] = c;
    }
    for (size_t i = 0; i < n; i++)
        for (int r = 0; r < 4; r++) {
            uint32_t next = a + rotate(b ^ table[(data[i] + a) & 255], 7 + r);
            a = b;
            b = next;
        }
    return a ^ b;
}

static int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

static void sort(int *v, int n) {
    if (n < 2) return;
    int pivot = v[n / 2], i = 0, j = n - 1;
    while (i <= j) {
        while (v[i] < pivot) i++;
        while (v[j] > pivot) j--;
        if (i <= j) {
            int t = v[i];
            v[i++] = v[j];
            v[j--] = t;
        }
    }
    sort(v, j + 1);
    sort(v + i, n - i);
}

int main(void) {
    static unsigned char bytes[20000], composite[50000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)(i * i >> 3);
    printf("mix %08x\n", mix(bytes, sizeof bytes));
    printf("fib %d\n", fib(22));
    static int numbers[20000];
    uint32_t seed = 99;
    for (int i = 0; i < 20000; i++) numbers[i] = (int)((seed = seed * 1664525 + 1013904223) >> 4);
    sort(numbers, 20000);
    for (int i = 1; i < 20000; i++) CHECK(numbers[i - 1] <= numbers[i]);
    static double a[48][48], b[48][48], c[48][48];
    for (int i = 0; i < 48; i++)
        for (int j = 0; j < 48; j++) a[i][j] = i + j / 7.0, b[i][j] = i * j % 13 - 6.0;
    for (int i = 0; i < 48; i++)
        for (int j = 0; j < 48; j++)
            for (int k = 0; k < 48; k++) c[i][j] += a[i][k] * b[k][j];
    double trace = 0;
    for (int i = 0; i < 48; i++) trace += c[i][i];
    printf("trace %.12g\n", trace);
    int primes = 0;
    for (int i = 2; i < 50000; i++) {
        if (composite[i]) continue;
        primes++;
        for (int j = 2 * i; j < 50000; j += i) composite[j] = 1;
    }
    CHECK(primes == 5133);
    unsigned __int128 big = 1;
    for (unsigned i = 1; i <= 33; i++) big *= i;
    printf("33! %016lx%016lx\n", (unsigned long)(big >> 64), (unsigned long)big);
    double sum = 0;
    for (int i = 1; i < 2000; i++) sum += sqrt(i) / (1.0 + (double)(i % 17));
    printf("sum %.10g\n", sum);
    return ok();
}
