// Shared memory without a file gets a second address.
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

int main(void) {
    char *first = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *second = mremap(first, 0, 8192, MREMAP_MAYMOVE);
    second[0] = 'x';
    printf("%c\n", first[0]);
    return 0;
}
