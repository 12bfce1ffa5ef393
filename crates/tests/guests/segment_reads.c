// relive: link=pie
// Instructions that read the kernel's state of segments, and software interrupts.
#include "check.h"
#include <setjmp.h>

static sigjmp_buf back;
static int number, code;

static void on_signal(int sig, siginfo_t *info, void *context) {
    (void)context;
    number = sig;
    code = info->si_code;
    siglongjmp(back, 1);
}

int main(void) {
    unsigned rights = 0;
    unsigned char set;
    __asm__("lar %2, %0; setz %1" : "=r"(rights), "=q"(set) : "r"(0x33) : "cc");
    CHECK(set && rights >> 8 != 0);
    __asm__("verr %w1; setz %0" : "=q"(set) : "r"(0x2b) : "cc");
    CHECK(set);
    __asm__("verw %w1; setz %0" : "=q"(set) : "r"(0x33) : "cc");
    CHECK(!set);
    struct {
        uint16_t limit;
        uint64_t base;
    } __attribute__((packed)) table = {0, 0};
    __asm__("sgdt %0" : "=m"(table));
    CHECK(table.base >> 63);
    __asm__("sidt %0" : "=m"(table));
    CHECK(table.base >> 63);
    uint64_t gdt = table.base;
    __asm__("sidt %0" : "=m"(table));
    CHECK(table.base == gdt);
    uint16_t word;
    __asm__("str %0" : "=r"(word));
    __asm__("sldt %0" : "=r"(word));
    unsigned status;
    __asm__("smsw %0" : "=r"(status));
    CHECK(status & 1);
    handle(SIGSEGV, on_signal, 0);
    handle(SIGTRAP, on_signal, 0);
    if (sigsetjmp(back, 1) == 0) __asm__ volatile(".byte 0xcd, 3");
    CHECK(number == SIGTRAP && code == SI_KERNEL);
    if (sigsetjmp(back, 1) == 0) __asm__ volatile("int $0x20");
    CHECK(number == SIGSEGV && code == SI_KERNEL);
    number = 0;
    if (sigsetjmp(back, 1) == 0) __asm__ volatile("rdpmc" : : "c"(0) : "rax", "rdx");
    CHECK(number == SIGSEGV);
    return ok();
}
