// Reads a file of 16 MiB in blocks of 4 KiB, a hundred times over.
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv) {
    static unsigned char block[4096];
    int file = argc > 1 ? open(argv[1], O_RDONLY) : -1;
    if (file < 0) return 1;
    uint64_t sum = 0, blocks = 0;
    for (int round = 0; round < 100; round++) {
        for (off_t at = 0; pread(file, block, sizeof block, at) == sizeof block; at += sizeof block) {
            sum = sum * 31 + block[at % 4093];
            blocks++;
        }
    }
    printf("%lu blocks, %016lx\n", blocks, sum);
    return 0;
}
