// relive: link=pie,static
// siglongjmp out of handlers, hundreds of times, for synchronous and raised signals.
#include "fault.h"
#include <setjmp.h>

static sigjmp_buf out;
static volatile int last;

static void leave(int number, siginfo_t *info, void *context) {
    (void)info;
    (void)context;
    last = number;
    siglongjmp(out, number);
}

int main(void) {
    handle(SIGSEGV, leave, 0);
    handle(SIGFPE, leave, 0);
    handle(SIGUSR1, leave, 0);
    volatile int count = 0;
    int *volatile nowhere = (int *)8;
    volatile int zero = 0, one = 1;
    for (volatile int i = 0; i < 300; i++) {
        int got = sigsetjmp(out, 1);
        if (got == 0) {
            switch (i % 3) {
            case 0: *nowhere = 1; break;
            case 1: count = one / zero; break;
            default: raise(SIGUSR1); break;
            }
            CHECK(0);
        }
        CHECK(got == (i % 3 == 0 ? SIGSEGV : i % 3 == 1 ? SIGFPE : SIGUSR1) && last == got);
        count++;
    }
    CHECK(count == 300);
    return ok();
}
