// relive: link=pie
// The flags of the alternate stack in a signal's frame are those that were set, whether the thread is on
// the stack or not; sigaltstack(2) tells where it is.
#include "fault.h"
#include <pthread.h>

// The C library does not have it.
enum { AUTODISARM = -2147483647 - 1 };

static char alternate[1 << 16];
static volatile int depth, in_frame[3], told[3];

static void on_usr(int number, siginfo_t *info, void *context) {
    (void)info;
    stack_t now;
    CHECK(sigaltstack(NULL, &now) == 0);
    told[depth] = now.ss_flags;
    in_frame[depth] = ((ucontext_t *)context)->uc_stack.ss_flags;
    if (depth++ == 0) raise(number);
}

static void see(int flags, int outer, int inner) {
    stack_t stack = {.ss_sp = alternate, .ss_flags = flags, .ss_size = sizeof alternate};
    CHECK(sigaltstack(&stack, NULL) == 0);
    depth = 0;
    raise(SIGUSR1);
    CHECK(depth == 2 && told[0] == outer && told[1] == inner);
    CHECK(in_frame[0] == flags);
    // Where the stack is the handler's alone it is none for the handler within.
    CHECK(in_frame[1] == (flags < 0 ? SS_DISABLE : flags));
    CHECK(sigaltstack(NULL, &stack) == 0 && (stack.ss_flags & ~SS_ONSTACK) == (flags & ~SS_ONSTACK));
}

static void *thread(void *unused) {
    (void)unused;
    depth = 1;
    raise(SIGUSR1);
    CHECK(told[1] == SS_DISABLE && in_frame[1] == SS_DISABLE);
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_usr, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    see(0, SS_ONSTACK, SS_ONSTACK);
    see(SS_ONSTACK, SS_ONSTACK, SS_ONSTACK);
    see(AUTODISARM, SS_DISABLE, SS_DISABLE);
    pthread_t other;
    CHECK(pthread_create(&other, NULL, thread, NULL) == 0 && pthread_join(other, NULL) == 0);
    puts("ok");
}

