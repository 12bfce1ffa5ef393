// Reads a clock more often than it is written to the tape.
#include <stdio.h>
#include <time.h>

struct timespec last;
long rounds;

__attribute__((noinline)) void seen(long round) { rounds = round; }

int main(void) {
    for (long round = 0; round < 1500; round++) {
        clock_gettime(CLOCK_MONOTONIC, &last);
        seen(round);
    }
    printf("%ld\n", rounds);
    return 0;
}
