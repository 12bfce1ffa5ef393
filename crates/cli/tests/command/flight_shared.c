/* A process by itself with memory that is mapped shared and may be written: without a file, of a file, and of a memfd. It counts in all
   of them for ROUNDS of 5 ms, and shows them. With a second argument it has a child in every so many rounds, which counts there too. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 3 * 4096, KINDS = 3 };
static volatile long *maps[KINDS];

static void *map(int file)
{
    if (file >= 0 && ftruncate(file, BYTES) < 0)
        exit(1);
    int flags = file < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
    void *at = mmap(0, BYTES, PROT_READ | PROT_WRITE, flags, file, 0);
    if (at == MAP_FAILED)
        exit(2);
    return at;
}

int main(int argc, char **argv)
{
    maps[0] = map(-1);
    maps[1] = map(open("counts", O_RDWR | O_CREAT | O_TRUNC, 0600));
    maps[2] = map(memfd_create("counts", 0));
    printf("%d\n", getpid());
    int every = argc > 2 ? atoi(argv[2]) : 0;
    for (int round = 0; round < atoi(argv[1]); round++) {
        if (every && round % every == every - 1) {
            pid_t child = fork();
            for (int i = 0; child == 0 && i < KINDS; i++)
                maps[i][512 * i] += 100000;
            if (child == 0)
                _exit(0);
            waitpid(child, 0, 0);
        }
        for (int i = 0; i < KINDS; i++)
            maps[i][512 * i] += i + 1;
        printf("round %d: %ld %ld %ld\n", round, maps[0][0], maps[1][512], maps[2][1024]);
        fflush(stdout);
        usleep(5000);
    }
    return 9;
}
