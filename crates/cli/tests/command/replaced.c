/* Writes to a word at a fixed address, and becomes another program. */
#include <sys/mman.h>
#include <unistd.h>

static void __attribute__((noinline)) writer(volatile long *word) { *word = 5; }

int main(void) {
    void *at = (void *)0x20000000;
    if (mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != at) return 1;
    writer(at);
    execl("/bin/true", "true", (char *)0);
    return 1;
}
