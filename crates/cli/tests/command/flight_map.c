/* Shows a byte of a file that it maps shared, for reading only, every 5 ms; near the end it writes to the file by a call. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void)
{
    int file = open("shown", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || write(file, "a", 1) != 1)
        return 1;
    int only = open("shown", O_RDONLY);
    volatile char *map = mmap(0, 4096, PROT_READ, MAP_SHARED, only, 0);
    if (map == MAP_FAILED)
        return 2;
    for (int round = 0; round < 60; round++) {
        if (round == 57 && pwrite(file, "b", 1, 0) != 1)
            return 3;
        printf("%d: %c\n", round, map[0]);
        fflush(stdout);
        usleep(5000);
    }
    return 9;
}
