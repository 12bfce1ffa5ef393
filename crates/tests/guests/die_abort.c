// relive: signal=SIGABRT link=pie,static
// abort() with the signal blocked and ignored still ends the process by SIGABRT.
#include "check.h"
#include <sys/resource.h>

int main(void) {
    struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
    signal(SIGABRT, SIG_IGN);
    sigset_t set;
    sigfillset(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    abort();
}
