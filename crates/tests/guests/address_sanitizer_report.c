// relive: flags="-fsanitize=address -O1 -g" exit=1 output=free expect=heap-buffer-overflow
// AddressSanitizer's report of a heap overflow: the text has addresses in it.
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
    (void)argv;
    if (dup2(1, 2) != 2) return 2; // reports go to standard error
    char *block = malloc(10);
    block[9 + argc] = 1;
    printf("not reached: %d\n", block[0]);
    return 0;
}
