// Maps a window of a file again and again, while somebody outside changes the file between the
// maps: a line on standard output, and one on standard input before the next map.
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define WINDOW (64 * 4096L)

int main(int argc, char **argv) {
    int fd = open("shared", O_RDWR);
    char *kept = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 4 * WINDOW);
    for (char line[16]; fgets(line, sizeof line, stdin);) {
        char *p = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, fd, WINDOW);
        if (p == MAP_FAILED || kept == MAP_FAILED) return 1;
        printf("%c%c%c %s", p[0], p[5000], p[WINDOW - 1], kept);
        fflush(stdout);
        p[5000]++;
        munmap(p, WINDOW);
    }
    return argc == 9;
}
