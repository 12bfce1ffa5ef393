// relive: link=pie,static
// setjmp and longjmp over many frames, sigsetjmp with a mask, and a jump between two
// contexts made by makecontext.
#include "check.h"
#include <setjmp.h>
#include <ucontext.h>

static jmp_buf target;
static int depth_reached;

__attribute__((noinline)) static void dive(int depth) {
    volatile char frame[64];
    frame[0] = (char)depth;
    depth_reached++;
    if (depth == 0) longjmp(target, 42);
    dive(depth - 1);
    frame[1] = frame[0];
}

static ucontext_t main_context, other;
static int visits;
static void coroutine(int a, int b) {
    CHECK(a == 3 && b == 4);
    for (int i = 0; i < 100; i++) {
        visits++;
        CHECK(swapcontext(&other, &main_context) == 0);
    }
}

int main(void) {
    for (int round = 0; round < 200; round++) {
        int got = setjmp(target);
        if (got == 0) dive(50);
        CHECK(got == 42);
    }
    CHECK(depth_reached == 200 * 51);

    static sigjmp_buf with_mask;
    sigset_t set, now;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    volatile int again = 0;
    if (sigsetjmp(with_mask, 1) == 0) {
        CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
        again = 1;
        siglongjmp(with_mask, 1);
    }
    CHECK(again == 1 && sigprocmask(SIG_BLOCK, NULL, &now) == 0 && !sigismember(&now, SIGUSR1));

    static char stack[65536];
    CHECK(getcontext(&other) == 0);
    other.uc_stack.ss_sp = stack;
    other.uc_stack.ss_size = sizeof stack;
    other.uc_link = &main_context;
    makecontext(&other, (void (*)(void))coroutine, 2, 3, 4);
    for (int i = 0; i < 100; i++) {
        CHECK(swapcontext(&main_context, &other) == 0);
        CHECK(visits == i + 1);
    }
    return ok();
}
