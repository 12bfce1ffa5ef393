// relive: link=pie,static
// FS and GS bases: arch_prctl for GS, GS-relative operands of all kinds, FS switched by hand
// and back while nothing else runs, and rdgsbase where the kernel allows it.
#include "check.h"
#include <asm/prctl.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

static uint64_t block[16];

int main(void) {
    for (int i = 0; i < 16; i++) block[i] = 0x1000u + (unsigned)i;
    unsigned long base = 1;
    CHECK(syscall(SYS_arch_prctl, ARCH_GET_GS, &base) == 0 && base == 0);
    CHECK(syscall(SYS_arch_prctl, ARCH_SET_GS, block) == 0);
    CHECK(syscall(SYS_arch_prctl, ARCH_GET_GS, &base) == 0 && base == (unsigned long)block);
    uint64_t value, sum = 0;
    __asm__ volatile("movq %%gs:16, %0" : "=r"(value) : : "memory");
    CHECK(value == 0x1002);
    for (uint64_t i = 0; i < 16; i++) {
        __asm__ volatile("addq %%gs:(,%1,8), %0" : "+r"(sum) : "r"(i) : "cc", "memory");
        __asm__ volatile("lock incq %%gs:8(%0)" : : "r"((i % 15) * 8) : "memory", "cc");
    }
    CHECK(sum == 16 * 0x1000 + 120 + 15 && block[1] == 0x1003 && block[2] == 0x1003);
    __asm__ volatile("movq %%gs:24, %%rax\n\tpushq %%gs:32\n\tpopq %0" : "=r"(value) : : "rax");
    CHECK(value == block[4]);
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
        __asm__ volatile("rdgsbase %0" : "=r"(base));
        CHECK(base == (unsigned long)block);
        __asm__ volatile("wrgsbase %0" : : "r"(block + 1));
        __asm__ volatile("movq %%gs:16, %0" : "=r"(value) : : "memory");
        CHECK(value == block[3]);
        __asm__ volatile("rdfsbase %0" : "=r"(base));
        CHECK(base == mine);
    }
    return ok();
}
