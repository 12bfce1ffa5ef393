// relive: link=pie,static
// Handlers on an alternate stack: entering, nesting, SS_ONSTACK, recovery from a real stack
// overflow by siglongjmp.
#include "fault.h"
#include <setjmp.h>
#include <sys/resource.h>

static char alternate[1 << 16];
static sigjmp_buf out;
static volatile int seen;

static int on_alternate(const void *p) {
    return (const char *)p >= alternate && (const char *)p < alternate + sizeof alternate;
}

static void on_usr(int number, siginfo_t *info, void *context) {
    (void)info;
    char here;
    stack_t now;
    CHECK(sigaltstack(NULL, &now) == 0);
    if (number == SIGUSR1) {
        CHECK(on_alternate(&here) && (now.ss_flags & SS_ONSTACK));
        CHECK(!on_alternate((void *)REG(context, RSP)));
        stack_t other = {.ss_sp = alternate, .ss_size = sizeof alternate};
        CHECK(sigaltstack(&other, NULL) == -1 && errno == EPERM);
        raise(SIGUSR2);
        CHECK(seen == 1);
    } else {
        // Nested: goes on below the first frame of the same stack.
        CHECK(on_alternate(&here) && on_alternate((void *)REG(context, RSP)));
        seen = 1;
    }
}

static void on_overflow(int number, siginfo_t *info, void *context) {
    (void)info;
    (void)context;
    CHECK(number == SIGSEGV);
    siglongjmp(out, 1);
}

__attribute__((noinline, noclone)) static int overflow(int n) {
    volatile char frame[4096];
    frame[0] = (char)n;
    return n < 0 ? 0 : overflow(n + 1) + frame[0];
}

int main(void) {
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate}, old;
    CHECK(sigaltstack(&stack, &old) == 0 && (old.ss_flags & SS_DISABLE));
    handle(SIGUSR1, on_usr, SA_ONSTACK);
    handle(SIGUSR2, on_usr, SA_ONSTACK);
    raise(SIGUSR1);
    CHECK(seen == 1);
    // A small limit, so that the overflow is near.
    struct rlimit limit = {1 << 20, 8 << 20};
    CHECK(setrlimit(RLIMIT_STACK, &limit) == 0);
    handle(SIGSEGV, on_overflow, SA_ONSTACK);
    for (int i = 0; i < 3; i++)
        if (sigsetjmp(out, 1) == 0) {
            overflow(0);
            CHECK(0);
        }
    CHECK(sigaltstack(NULL, &old) == 0 && old.ss_flags == 0 && old.ss_sp == alternate);
    stack.ss_flags = SS_DISABLE;
    CHECK(sigaltstack(&stack, NULL) == 0);
    stack.ss_flags = 0;
    stack.ss_size = 100;
    CHECK(sigaltstack(&stack, NULL) == -1 && errno == ENOMEM);
    return ok();
}
