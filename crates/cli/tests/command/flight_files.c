/* Maps one new file of 2 MiB after the other, ROUNDS of 25 ms, and shows a byte of each; one of them stays mapped. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BYTES = 2 << 20 };
static char block[BYTES];

int main(int argc, char **argv)
{
    const char *stays = 0;
    for (int round = 0; round < atoi(argv[1]); round++) {
        for (int at = 0; at < BYTES; at += 512)
            memcpy(block + at, &round, sizeof round);
        int file = open("shown", O_RDWR | O_CREAT | O_TRUNC, 0600);
        if (file < 0 || write(file, block, BYTES) != BYTES)
            return 1;
        const char *map = mmap(0, BYTES, PROT_READ, MAP_PRIVATE, file, 0);
        if (map == MAP_FAILED)
            return 2;
        close(file);
        unlink("shown");
        printf("round %d: %d\n", round, *(const int *)(map + 512));
        if (round == 5)
            stays = map;
        else
            munmap((void *)map, BYTES);
        if (stays)
            printf("still %d\n", *(const int *)(stays + 1024));
        fflush(stdout);
        usleep(25000);
    }
    return 9;
}
