// relive: link=pie,static
// SIGSEGV at exact instructions: address, code, program counter and every register in the
// frame; the handler skips, repairs or redirects.
#include "fault.h"
#include <sys/mman.h>

// Loads r8 to r15, rbx and rbp with known values, then faults at each labelled instruction.
asm(".text\n"
    "probe: push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
    " mov $0x101, %ebx\n mov $0x102, %ebp\n mov $0x108, %r8d\n mov $0x109, %r9d\n mov $0x10a, %r10d\n"
    " mov $0x10b, %r11d\n mov $0x10c, %r12d\n mov $0x10d, %r13d\n mov $0x10e, %r14d\n mov $0x10f, %r15d\n"
    " mov $0x103, %ecx\n mov $0x104, %edx\n mov $0x105, %esi\n mov $-1, %eax\n stc\n"
    ".globl fault_load\nfault_load: mov (%rdi), %rax\n after_load: setc %cl\n"
    ".globl fault_add\nfault_add: add %rdx, 8(%rdi)\n after_add:\n"
    ".globl fault_cmp\nfault_cmp: cmpl $0x11223344, 16(%rdi)\n after_cmp:\n"
    ".globl fault_vector\nfault_vector: movups 32(%rdi), %xmm0\n after_vector:\n"
    ".globl fault_push\n mov %rsp, %rbx\n lea 64(%rdi), %rsp\nfault_push: push %rsi\n after_push: mov %rbx, %rsp\n"
    " pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n ret\n"
    "call_through: sub $8, %rsp\n"
    ".globl fault_call\nfault_call: call *(%rdi)\n after_call: add $8, %rsp\n ret\n"
    "jump_wild: lea landed(%rip), %rdx\n jmp *%rdi\nlanded: mov $5, %eax\n ret\n");
void probe(void *), call_through(void *);
int jump_wild(uintptr_t);
extern const char fault_load[], fault_add[], fault_cmp[], fault_vector[], fault_push[], fault_call[];
extern const char after_load[], after_add[], after_cmp[], after_vector[], after_push[], after_call[];

static char *page;
static int step, wild;
static const struct {
    const char *at, *after;
    long offset;
} stops[] = {{fault_load, after_load, 0},       {fault_add, after_add, 8},   {fault_cmp, after_cmp, 16},
             {fault_vector, after_vector, 32},  {fault_push, after_push, 56}};

static void on_segv(int number, siginfo_t *info, void *context) {
    CHECK(number == SIGSEGV && info->si_signo == SIGSEGV);
    if (wild) {
        // A jump to nowhere: the program counter is the target itself.
        CHECK((uintptr_t)REG(context, RIP) == (uintptr_t)wild && (uintptr_t)info->si_addr == (uintptr_t)wild);
        REG(context, RIP) = REG(context, RDX);
        wild = 0;
        return;
    }
    if (step == 5) {
        CHECK((const char *)REG(context, RIP) == fault_call && info->si_addr == page);
        REG(context, RIP) = (long)after_call;
        step++;
        return;
    }
    CHECK(step < 5 && (const char *)REG(context, RIP) == stops[step].at);
    CHECK(info->si_addr == page + stops[step].offset && info->si_code == SEGV_ACCERR);
    CHECK(REG(context, RBP) == 0x102 && REG(context, R8) == 0x108 && REG(context, R9) == 0x109);
    CHECK(REG(context, R10) == 0x10a && REG(context, R11) == 0x10b && REG(context, R12) == 0x10c);
    CHECK(REG(context, R13) == 0x10d && REG(context, R14) == 0x10e && REG(context, R15) == 0x10f);
    CHECK(REG(context, RDX) == 0x104 && REG(context, RSI) == 0x105 && (char *)REG(context, RDI) == page);
    CHECK(REG(context, TRAPNO) == 14 && (REG(context, ERR) & 4));
    CHECK(REG(context, RAX) == (step == 0 ? 0xffffffffL : 0x7777));
    if (step == 0) {
        CHECK(REG(context, EFL) & 1);
        REG(context, RAX) = 0x7777;
    } else {
        CHECK((char)REG(context, RCX) == 1); // setc saw the flag that the frame brought back
    }
    CHECK(!!(REG(context, ERR) & 2) == (step == 1 || step == 4));
    REG(context, RIP) = (long)stops[step].after;
    step++;
}

static char alternate[65536];

int main(void) {
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    CHECK(sigaltstack(&stack, NULL) == 0);
    handle(SIGSEGV, on_segv, SA_ONSTACK); // the push fault has no usable stack
    page = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    for (int round = 0; round < 50; round++) {
        step = 0;
        probe(page);
        CHECK(step == 5);
        call_through(page);
        CHECK(step == 6);
        wild = 0x1000;
        CHECK(jump_wild(0x1000) == 5);
    }
    return ok();
}
