// A loop of two instructions, for a debugger that records instruction by instruction: as many
// rounds as said, between two functions that it can stop at.
#include <stdlib.h>

__attribute__((noinline)) void loop_begins(void) { __asm__ volatile(""); }
__attribute__((noinline)) void loop_ends(void) { __asm__ volatile(""); }

int main(int argc, char **argv) {
    unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    loop_begins();
    __asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(count) : : "cc");
    loop_ends();
    return 0;
}
