/* Reads a file of MEGABYTES, of which no block is like another, and shows a sum now and then; ends with status 9. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { BLOCK = 1 << 18 };
static uint64_t block[BLOCK / 8];

int main(int argc, char **argv)
{
    int file = open("large", O_RDWR | O_CREAT | O_TRUNC, 0600);
    int blocks = (argc > 1 ? atoi(argv[1]) : 1) * 4;
    uint64_t next = 1, sum = 0;
    for (int n = 0; n < blocks; n++) {
        for (int i = 0; i < BLOCK / 8; i++)
            block[i] = next = next * 6364136223846793005u + 1442695040888963407u;
        if (pwrite(file, block, sizeof block, (off_t)n * BLOCK) != BLOCK)
            return 1;
    }
    for (int n = 0; n < blocks; n++) {
        if (pread(file, block, sizeof block, (off_t)n * BLOCK) != BLOCK)
            return 2;
        for (int i = 0; i < BLOCK / 8; i++)
            sum += block[i];
        printf("%d: %lx\n", n, (unsigned long)sum);
        fflush(stdout);
        usleep(4000);
    }
    return 9;
}
