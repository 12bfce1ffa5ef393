// relive:
// A program reads its own memory through /proc/self/mem, whatever its protection; and mprotect of
// a range with a hole changes the pages before the hole.
#include "check.h"
#include <fcntl.h>
#include <setjmp.h>
#include <sys/mman.h>

static sigjmp_buf back;

static void fault(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    siglongjmp(back, number);
}

static int writable(volatile char *at) {
    if (sigsetjmp(back, 1)) return 0;
    *at = 1;
    return 1;
}

int main(void) {
    handle(SIGSEGV, fault, 0);
    char *map = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED);
    strcpy(map, "seen without a right");
    CHECK(mprotect(map, 4096, PROT_NONE) == 0);
    int memory = open("/proc/self/mem", O_RDONLY);
    CHECK(memory >= 0);
    char text[32] = "", code[16];
    CHECK(pread(memory, text, 20, (off_t)map) == 20 && strcmp(text, "seen without a right") == 0);
    CHECK(pread(memory, code, sizeof code, (off_t)main) == sizeof code);
    CHECK(memcmp(code, (char *)main, sizeof code) == 0);
    CHECK(munmap(map + 2 * 4096, 4096) == 0);
    CHECK(mprotect(map, 3 * 4096, PROT_READ) == -1 && errno == ENOMEM);
    CHECK(map[0] == 's' && !writable(map) && !writable(map + 4096));
    return ok();
}
