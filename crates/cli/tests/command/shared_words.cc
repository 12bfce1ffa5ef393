// A process looks at what its child writes to memory that they share.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) int seen(int n) { return n + 1; }

int main(void)
{
    void *map = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    volatile int *word = static_cast<volatile int *>(map);
    for (int n = 40; n < 43; n++) {
        if (fork() == 0) {
            *word = n;
            _exit(0);
        }
        wait(0);
        seen(*word);
    }
    return 0;
}
