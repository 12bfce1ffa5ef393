// relive: link=pie,nopie,static-pie flags="-mno-red-zone"
// RIP-relative operands followed by immediates of every size, on both sides of the operand.
#include "check.h"

static volatile struct {
    uint8_t b;
    uint16_t w;
    uint32_t l;
    uint64_t q;
} cell;
static volatile float f = 1.25f;
static volatile double d = 2.5;

int main(void) {
    for (int i = 0; i < 100; i++) {
        __asm__ volatile("movb $0x12, %0\n\tmovw $0x1234, %1\n\tmovl $0x12345678, %2\n\tmovq $-2, %3"
                         : "=m"(cell.b), "=m"(cell.w), "=m"(cell.l), "=m"(cell.q));
        CHECK(cell.b == 0x12 && cell.w == 0x1234 && cell.l == 0x12345678 && cell.q == (uint64_t)-2);
        __asm__ volatile("addl $0x11111111, %0\n\taddl $1, %0\n\tsubw $0x234, %1\n\txorb $0xff, %2"
                         : "+m"(cell.l), "+m"(cell.w), "+m"(cell.b) : : "cc");
        CHECK(cell.l == 0x2345678a && cell.w == 0x1000 && cell.b == 0xed);
        uint32_t product;
        __asm__ volatile("imull $1000, %1, %0" : "=r"(product) : "m"(cell.l) : "cc");
        CHECK(product == 0x2345678au * 1000u);
        unsigned char less;
        __asm__ volatile("cmpq $5, %1\n\tsetl %0" : "=q"(less) : "m"(cell.q) : "cc");
        CHECK(less);
        __asm__ volatile("testl $0x2000000, %1\n\tsetnz %0" : "=q"(less) : "m"(cell.l) : "cc");
        CHECK(less);
        __asm__ volatile("shlq $4, %0\n\tbtsl $3, %1\n\tnotw %2\n\tlock incb %3"
                         : "+m"(cell.q), "+m"(cell.l), "+m"(cell.w), "+m"(cell.b) : : "cc");
        CHECK(cell.q == (uint64_t)-32 && cell.w == 0xefff && cell.b == 0xee);
        __asm__ volatile("pushq %1\n\tpopq %0" : "=m"(cell.q) : "m"(cell.q) : "memory");
        CHECK(cell.q == (uint64_t)-32);
        CHECK((double)f * d == 3.125);
        __asm__ volatile("xchgq %%rax, %0\n\txchgq %%rax, %0" : "+m"(cell.q) : : "rax");
        CHECK(cell.q == (uint64_t)-32);
    }
    return ok();
}
