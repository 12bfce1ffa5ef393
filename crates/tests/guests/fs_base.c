// relive: link=pie,static
// The FS base: switched by hand and back while nothing else runs, read by instruction where the
// kernel allows it, refused where it is no address.
#include "check.h"
#include <asm/prctl.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

static uint64_t block[16];

int main(void) {
    for (int i = 0; i < 16; i++) block[i] = 0x1000u + (unsigned)i;
    uint64_t value;
    // Another thread pointer for two instructions.
    unsigned long mine;
    CHECK(syscall(SYS_arch_prctl, ARCH_GET_FS, &mine) == 0 && mine != 0);
    long first, second;
    __asm__ volatile("movl $0x1002, %%edi\n\tmovq %4, %%rsi\n\tmovl $158, %%eax\n\tsyscall\n\t"
                     "movq %%rax, %0\n\tmovq %%fs:24, %2\n\t"
                     "movl $0x1002, %%edi\n\tmovq %3, %%rsi\n\tmovl $158, %%eax\n\tsyscall\n\tmovq %%rax, %1"
                     : "=&r"(first), "=&r"(second), "=&r"(value)
                     : "r"(mine), "r"(block)
                     : "rax", "rcx", "rdi", "rsi", "r11", "memory");
    CHECK(first == 0 && second == 0 && value == block[3]);
    CHECK(syscall(SYS_arch_prctl, ARCH_SET_FS, 0x8000000000000000ul) == -1 && errno == EPERM);
    if (getauxval(AT_HWCAP2) & 2) {
        unsigned long base;
        __asm__ volatile("rdfsbase %0" : "=r"(base));
        CHECK(base == mine);
        __asm__ volatile("wrfsbase %1\n\tmovq %%fs:24, %0\n\twrfsbase %2"
                         : "=&r"(value) : "r"(block), "r"(mine) : "memory");
        CHECK(value == block[3]);
    }
    return ok();
}
