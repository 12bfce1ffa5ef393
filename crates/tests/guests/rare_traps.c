// relive:
// Software interrupts, and instructions of extensions that a processor may not have: they work, or
// are undefined, and if `cpuid` promises one, it works.
#include "check.h"
#include <cpuid.h>
#include <setjmp.h>
#include <ucontext.h>

static sigjmp_buf back;
static volatile int number, code;
static volatile long trap, at;

static void trapped(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    number = signal, code = info->si_code;
    trap = (long)registers[REG_TRAPNO], at = (long)registers[REG_RIP];
    siglongjmp(back, 1);
}

#define TRY(...)                                                                         \
    do {                                                                                 \
        number = 0;                                                                      \
        if (sigsetjmp(back, 1) == 0) { __VA_ARGS__; }                                    \
    } while (0)

static void undefined_or_works(int promised) {
    CHECK(number == 0 || number == SIGILL || number == SIGSEGV);
    CHECK(!promised || number == 0);
    if (number == SIGILL) CHECK(trap == 6 && code == ILL_ILLOPN);
}

int main(void) {
    static const int signals[] = {SIGSEGV, SIGILL, SIGTRAP};
    unsigned a, b, c = 0, d;
    for (int i = 0; i < 3; i++) handle(signals[i], trapped, 0);
    TRY(__asm__ volatile("int $4"));
    CHECK(number == SIGSEGV && trap == 4 && code == SI_KERNEL);
    TRY(__asm__ volatile("int $5"));
    CHECK(number == SIGSEGV && trap == 13 && code == SI_KERNEL);
    // getpid of 32-bit programs.
    static volatile int pid = 20;
    TRY(int id = pid; __asm__ volatile("int $0x80" : "+a"(id) : : "r8", "r9", "r10", "r11", "memory"); pid = id);
    CHECK(number == 0 ? pid == (int)getpid() : number == SIGSEGV && trap == 13);
    __cpuid_count(7, 0, a, b, c, d);
    TRY(__asm__ volatile("xor %%ecx, %%ecx; .byte 0x0f, 0x01, 0xee" : : : "eax", "ecx", "edx")); // rdpkru
    undefined_or_works(c >> 4 & 1);
    TRY(__asm__ volatile(".byte 0x0f, 0x01, 0xd6" : : : "cc")); // xtest
    undefined_or_works(b >> 11 & 1);
    TRY(__asm__ volatile("xor %%eax, %%eax; xor %%edx, %%edx; xor %%ecx, %%ecx; .byte 0x66, 0x0f, 0xae, 0xf1"
                         : : : "eax", "ecx", "edx", "cc")); // tpause
    undefined_or_works(c >> 5 & 1);
    TRY(__asm__ volatile(".byte 0xc7, 0xf8, 0, 0, 0, 0" : : : "eax", "memory")); // xbegin
    undefined_or_works(b >> 11 & 1);
    return ok();
}
