// relive: signal=SIGSEGV link=pie,static
// The first thread overflows its stack, where its handler would have to run.
#include "check.h"
#include <sys/resource.h>

static void never(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    _exit(98);
}

__attribute__((noinline, noclone)) static int overflow(int n) {
    volatile char frame[4096];
    frame[0] = (char)n;
    return n < 0 ? 0 : overflow(n + 1) + frame[0];
}

int main(void) {
    struct rlimit none = {0, 0}, small = {1 << 20, 8 << 20};
    CHECK(setrlimit(RLIMIT_CORE, &none) == 0 && setrlimit(RLIMIT_STACK, &small) == 0);
    handle(SIGSEGV, never, 0);
    puts("before");
    fflush(stdout);
    return overflow(0);
}
