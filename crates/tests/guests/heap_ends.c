// relive: link=pie
// Ends that the heap cannot have leave it as it is, also those that look like an error of a system call.
#include "check.h"
#include <sys/syscall.h>
#include <unistd.h>

int main(void) {
    const long end = syscall(SYS_brk, 0L);
    const long bad[] = {1, 4096, end >> 1, -1, -4095, -4096, -1L << 20, 1L << 46, 1L << 62, end + (3L << 40)};
    for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK(syscall(SYS_brk, bad[i]) == end);
        CHECK(syscall(SYS_brk, 0L) == end);
    }
    CHECK(brk((void *)-1) == -1 && errno == ENOMEM);
    CHECK(sbrk(4096) == (void *)end && syscall(SYS_brk, 0L) == end + 4096);
    puts("ok");
}
