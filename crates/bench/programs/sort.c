// Sorts eight million numbers with qsort's comparison through a pointer, and prints a digest.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(void) {
    enum { COUNT = 8000000 };
    uint64_t *all = malloc(COUNT * sizeof *all), state = 88172645463325252u, digest = 0;
    if (!all) return 1;
    for (int i = 0; i < COUNT; i++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        all[i] = state;
    }
    qsort(all, COUNT, sizeof *all, by_value);
    for (int i = 0; i < COUNT; i++) digest = digest * 31 + all[i];
    printf("%016lx\n", digest);
    return 0;
}
