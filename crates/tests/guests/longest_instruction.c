// relive:
// An instruction has fifteen bytes at most: a longer one is a general protection fault, not an undefined one.
#include "check.h"
#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

static sigjmp_buf back;
static siginfo_t seen;
static unsigned long where;

static void faulted(int signal, siginfo_t *info, void *context) {
    (void)signal;
    seen = *info;
    where = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    siglongjmp(back, 1);
}

extern const char longest[], too_long[], far_too_long[];
__asm__(".globl longest, too_long, far_too_long\n"
        "longest: .fill 14, 1, 0x66\n nop\n ret\n"
        "too_long: .fill 15, 1, 0x66\n nop\n ret\n"
        // The move has ten bytes by itself.
        "far_too_long: .fill 6, 1, 0x2e\n movabs $0x1122334455667788, %rax\n ret\n");

static void executes(const char *code) {
    ((void (*)(void))code)();
}

static void faults(const char *code) {
    if (sigsetjmp(back, 1) == 0) {
        executes(code);
        CHECK(!"it is executed");
    }
    printf("signal %d, code %d, address %p, %ld bytes into it\n", seen.si_signo, seen.si_code, seen.si_addr,
           (long)(where - (unsigned long)code));
}

int main(void) {
    struct sigaction action = {.sa_sigaction = faulted, .sa_flags = SA_SIGINFO | SA_NODEFER};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGILL, &action, NULL) == 0);
    for (int i = 0; i < 3; i++) {
        executes(longest);
        faults(too_long);
        faults(far_too_long);
    }
    puts("ok");
}
