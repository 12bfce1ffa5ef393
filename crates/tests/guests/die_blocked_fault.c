// relive: signal=SIGILL
// A synchronous fault whose signal is blocked or ignored is not held back: it ends the process.
#include "check.h"
#include <sys/resource.h>

int main(void) {
    struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
    signal(SIGILL, SIG_IGN);
    sigset_t set;
    sigfillset(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    __builtin_trap();
}
