// relive: link=pie,static
// The GS base: arch_prctl, GS-relative operands of all kinds, rdgsbase where the kernel allows it.
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
    if (getauxval(AT_HWCAP2) & 2) {
        __asm__ volatile("rdgsbase %0" : "=r"(base));
        CHECK(base == (unsigned long)block);
        __asm__ volatile("wrgsbase %0" : : "r"(block + 1));
        __asm__ volatile("movq %%gs:16, %0" : "=r"(value) : : "memory");
        CHECK(value == block[3]);
    }
    return ok();
}
