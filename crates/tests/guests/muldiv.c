// relive: link=pie
// One- and two-operand multiplication, division at every width, BCD-free corner cases,
// sign extension, xlat, lahf and sahf, pushf and popf.
#include "check.h"

typedef uint64_t u64;

asm(".text\n"
    "translate: mov %rbx, %r8\n mov %rdi, %rbx\n mov %esi, %eax\n xlatb\n movzbl %al, %eax\n mov %r8, %rbx\n ret\n"
    "roundtrip: push %rdi\n popfq\n lahf\n movzbl %ah, %eax\n mov %eax, %edx\n pushfq\n popq %rcx\n"
    "  mov %dl, %ah\n sahf\n pushfq\n pop %r8\n cmp %r8, %rcx\n jne 1f\n mov %rcx, %rax\n"
    "  cld\n ret\n1: cld\n xor %eax, %eax\n ret\n");
unsigned translate(const char *table, unsigned index);
u64 roundtrip(u64 flags);

int main(void) {
    u64 hi, lo;
    __asm__("mulq %3" : "=a"(lo), "=d"(hi) : "a"(~(u64)0), "r"(~(u64)0) : "cc");
    CHECK(lo == 1 && hi == ~(u64)0 - 1);
    int64_t shi, slo;
    __asm__("imulq %3" : "=a"(slo), "=d"(shi) : "a"((int64_t)-5), "r"((int64_t)7) : "cc");
    CHECK(slo == -35 && shi == -1);
    unsigned char overflow;
    int32_t product = 0x10000;
    __asm__("imull %0, %0\n\tseto %1" : "+r"(product), "=q"(overflow) : : "cc");
    CHECK(product == 0 && overflow);
    u64 q, r;
    __asm__("divq %4" : "=a"(q), "=d"(r) : "a"((u64)5), "d"((u64)1), "r"((u64)10) : "cc");
    CHECK(q == 1844674407370955162ull && r == 1);
    int32_t sq, sr;
    __asm__("cltd\n\tidivl %3" : "=a"(sq), "=&d"(sr) : "a"(-17), "r"(5) : "cc");
    CHECK(sq == -3 && sr == -2);
    uint16_t by8 = 0xfe;
    __asm__("divb %1" : "+a"(by8) : "q"((uint8_t)0x10) : "cc");
    CHECK(by8 == 0x0e0f);
    int64_t wide;
    __asm__("cbtw\n\tcwtl\n\tcltq" : "=a"(wide) : "a"(0x80));
    CHECK(wide == -128);
    for (int64_t a = -1000; a < 1000; a += 7)
        for (int64_t b = -50; b < 50; b++)
            if (b != 0) {
                volatile int64_t x = a, y = b;
                CHECK(x / y * y + x % y == x);
            }
    char table[256];
    for (int i = 0; i < 256; i++) table[i] = (char)(i ^ 0x5a);
    for (unsigned i = 0; i < 256; i++) CHECK(translate(table, i) == (i ^ 0x5a));
    for (unsigned i = 0; i < 64; i++) {
        // CF PF AF ZF SF OF, DF, and the ID bit that marks a CPU with cpuid.
        u64 flags = 0x202 | (i & 1) | (i & 2) << 1 | (i & 4) << 2 | (i & 8) << 3 | (i & 16) << 3 | (i & 32) << 6;
        CHECK(roundtrip(flags) == flags);
        CHECK(roundtrip(flags | 1 << 10) == (flags | 1 << 10));
    }
    CHECK(roundtrip(0x200202) == 0x200202);
    return ok();
}
