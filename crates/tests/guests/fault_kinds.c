// relive: link=pie,static flags="-lm"
// SIGFPE, SIGILL, SIGTRAP and SIGBUS with their codes and program counters; the handler skips.
#include "fault.h"
#include <fcntl.h>
#include <fenv.h>
#include <sys/mman.h>

asm(".text\n"
    "divide: mov $7, %eax\n cltd\n"
    ".globl at_div\nat_div: idivl (%rdi)\n.globl past_div\npast_div: ret\n"
    "illegal:\n.globl at_ud2\nat_ud2: ud2\n.globl past_ud2\npast_ud2: mov $3, %eax\n ret\n"
    "breakpoint: nop\n int3\n.globl past_int3\npast_int3: mov $4, %eax\n ret\n"
    "privileged:\n.globl at_hlt\nat_hlt: hlt\n.globl past_hlt\npast_hlt: mov $6, %eax\n ret\n"
    "misaligned:\n.globl at_movaps\nat_movaps: movaps 1(%rsp), %xmm0\n.globl past_movaps\npast_movaps: mov $7, %eax\n ret\n"
    "noncanonical: movabs $0x1234567800000000, %rax\n"
    ".globl at_nc\nat_nc: mov (%rax), %eax\n.globl past_nc\npast_nc: mov $8, %eax\n ret\n");
int divide(int *), illegal(void), breakpoint(void), privileged(void), misaligned(void), noncanonical(void);
extern const char at_div[], past_div[], at_ud2[], past_ud2[], past_int3[], at_hlt[], past_hlt[];
extern const char at_movaps[], past_movaps[], at_nc[], past_nc[];

static volatile int number, code, trap;
static void *volatile address;
static const char *volatile pc;
static const char *resume;

static void on_fault(int signal, siginfo_t *info, void *context) {
    number = signal;
    code = info->si_code;
    address = info->si_addr;
    trap = (int)REG(context, TRAPNO);
    pc = (const char *)REG(context, RIP);
    REG(context, RIP) = (long)resume;
}

static int skip_to(const char *where) {
    resume = where;
    number = 0;
    return 0;
}

int main(void) {
    int all[] = {SIGFPE, SIGILL, SIGTRAP, SIGBUS, SIGSEGV};
    for (int i = 0; i < 5; i++) handle(all[i], on_fault, 0);
    for (int round = 0; round < 20; round++) {
        int zero = 0, three = 3;
        skip_to(past_div);
        divide(&zero);
        CHECK(number == SIGFPE && code == FPE_INTDIV && pc == at_div && address == at_div && trap == 0);
        CHECK(divide(&three) == 2);
        skip_to(past_ud2);
        CHECK(illegal() == 3 && number == SIGILL && code == ILL_ILLOPN && pc == at_ud2 && address == at_ud2);
        skip_to(past_int3);
        CHECK(breakpoint() == 4 && number == SIGTRAP && code == SI_KERNEL && pc == past_int3);
        skip_to(past_hlt);
        CHECK(privileged() == 6 && number == SIGSEGV && code == SI_KERNEL && pc == at_hlt && address == NULL);
        skip_to(past_movaps);
        CHECK(misaligned() == 7 && number == SIGSEGV && code == SI_KERNEL && pc == at_movaps && trap == 13);
        skip_to(past_nc);
        CHECK(noncanonical() == 8 && number == SIGSEGV && code == SI_KERNEL && pc == at_nc);
    }
    // Beyond the end of a mapped file.
    int fd = open("short", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, 100) == 0);
    volatile char *file = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, fd, 0);
    CHECK(file != MAP_FAILED && file[50] == 0);
    const char *wanted;
    number = 0;
    __asm__ volatile("lea 2f(%%rip), %%rax\n\tmov %%rax, %1\n\tlea 1f(%%rip), %0\n1: movb (%2), %%al\n2:"
                     : "=&r"(wanted), "=m"(resume)
                     : "r"(file + 4096)
                     : "rax", "memory");
    CHECK(number == SIGBUS && code == BUS_ADRERR && pc == wanted && address == (void *)(file + 4096));
    // A division by zero in SSE, unmasked.
    CHECK(feenableexcept(FE_DIVBYZERO) >= 0);
    volatile double one = 1, none = 0, result = 5;
    number = 0;
    __asm__ volatile("lea 2f(%%rip), %%rax\n\tmov %%rax, %0\n\tmovsd %2, %%xmm1\n1: divsd %3, %%xmm1\n2:"
                     : "=m"(resume), "+m"(result)
                     : "m"(one), "m"(none)
                     : "rax", "xmm1", "memory");
    CHECK(number == SIGFPE && code == FPE_FLTDIV && trap == 19);
    return ok();
}
