// relive: flags="-mno-red-zone"
// Shifts, double shifts, rotates through carry, bit tests and scans, exchange instructions.
#include "check.h"

typedef uint64_t u64;

static int carry_of(u64 flags) { return flags & 1; }

static void rotates(void) {
    for (int n = 0; n < 70; n++) {
        u64 x = 0x8123456789abcdefull, y = x;
        uint8_t count = (uint8_t)n;
        int carry = 1;
        __asm__("btl $0, %2\n\trclq %%cl, %0" : "+r"(x) : "c"(count), "r"(1) : "cc");
        for (int i = 0; i < (n & 63); i++) {
            int out = y >> 63;
            y = y << 1 | carry;
            carry = out;
        }
        CHECK(x == y);
        __asm__("btl $0, %2\n\trcrq %%cl, %0" : "+r"(x) : "c"(count), "r"(carry) : "cc");
        CHECK(x == 0x8123456789abcdefull);
        uint16_t w = 0xa55a, v = w;
        __asm__("rolw %%cl, %0\n\trorw %%cl, %0" : "+r"(w) : "c"(count) : "cc");
        CHECK(w == v);
        u64 h = 0x0f0f0f0f12345678ull, l = 0xfedcba9876543210ull;
        __asm__("shldq %%cl, %1, %0" : "+r"(h) : "r"(l), "c"(count) : "cc");
        int s = n & 63;
        CHECK(h == (s ? 0x0f0f0f0f12345678ull << s | l >> (64 - s) : 0x0f0f0f0f12345678ull));
        h = 0x0f0f0f0f12345678ull;
        __asm__("shrdq %%cl, %1, %0" : "+r"(h) : "r"(l), "c"(count) : "cc");
        CHECK(h == (s ? 0x0f0f0f0f12345678ull >> s | l << (64 - s) : 0x0f0f0f0f12345678ull));
    }
    // A shift by zero leaves all flags alone.
    u64 flags, x = 5;
    __asm__("stc\n\tshlq %%cl, %0\n\tpushfq\n\tpopq %1" : "+r"(x), "=r"(flags) : "c"((uint8_t)64) : "cc");
    CHECK(x == 5 && carry_of(flags));
}

static void bits(void) {
    u64 table[4] = {0, 0, 0, 0};
    unsigned char was;
    // A register bit index reaches beyond the operand, below it too.
    __asm__ volatile("btsq %2, (%1)\n\tsetc %0" : "=q"(was) : "r"(table), "r"((u64)130) : "cc", "memory");
    CHECK(!was && table[2] == 4);
    __asm__ volatile("btrq %2, (%1)\n\tsetc %0" : "=q"(was) : "r"(table + 3), "r"((int64_t)-62) : "cc", "memory");
    CHECK(was && table[2] == 0);
    __asm__ volatile("lock btcq %2, (%1)\n\tsetc %0" : "=q"(was) : "r"(table), "r"((u64)65) : "cc", "memory");
    CHECK(!was && table[1] == 2);
    for (int i = 0; i < 64; i++) {
        u64 x = (u64)1 << i, f, r;
        x |= (u64)1 << 63;
        __asm__("bsfq %1, %0" : "=r"(f) : "r"(x) : "cc");
        CHECK(f == (u64)(i < 63 ? i : 63));
        x = ((u64)1 << i) | 1;
        __asm__("bsrq %1, %0" : "=r"(r) : "r"(x) : "cc");
        CHECK(r == (u64)i);
    }
    unsigned char zero;
    u64 none = 0, kept = 77;
    __asm__("bsfq %2, %0\n\tsetz %1" : "+r"(kept), "=r"(zero) : "r"(none) : "cc");
    CHECK(zero);
    uint32_t swapped = 0x12345678;
    __asm__("bswap %0" : "+r"(swapped));
    CHECK(swapped == 0x78563412);
}

static void exchanges(void) {
    u64 memory = 10, reg = 5;
    __asm__("lock xaddq %0, %1" : "+r"(reg), "+m"(memory) : : "cc");
    CHECK(memory == 15 && reg == 10);
    unsigned char equal;
    u64 expected = 15;
    __asm__("lock cmpxchgq %3, %1\n\tsete %2" : "+a"(expected), "+m"(memory), "=q"(equal) : "r"((u64)99) : "cc");
    CHECK(equal && memory == 99);
    __asm__("lock cmpxchgq %3, %1\n\tsete %2" : "+a"(expected), "+m"(memory), "=q"(equal) : "r"((u64)1) : "cc");
    CHECK(!equal && expected == 99);
    __attribute__((aligned(16))) u64 pair[2] = {1, 2};
    u64 lo = 1, hi = 2;
    __asm__("lock cmpxchg16b %2\n\tsete %3"
            : "+a"(lo), "+d"(hi), "+m"(pair), "=q"(equal)
            : "b"((u64)7), "c"((u64)8)
            : "cc");
    CHECK(equal && pair[0] == 7 && pair[1] == 8);
    __asm__("lock cmpxchg16b %2\n\tsete %3"
            : "+a"(lo), "+d"(hi), "+m"(pair), "=q"(equal)
            : "b"((u64)9), "c"((u64)9)
            : "cc");
    CHECK(!equal && lo == 7 && hi == 8);
    uint32_t a = 3;
    __asm__("xchgl %0, (%1)" : "+r"(a) : "r"(&memory) : "memory");
    CHECK(a == 99 && (uint32_t)memory == 3);
    // A 32-bit result clears the upper half, a 16-bit one does not.
    u64 wide = ~(u64)0;
    __asm__("movw $1, %w0" : "+r"(wide));
    CHECK(wide == 0xffffffffffff0001ull);
    __asm__("movl $1, %k0" : "+r"(wide));
    CHECK(wide == 1);
}

static void conditions(void) {
    for (int a = -3; a <= 3; a++)
        for (int b = -3; b <= 3; b++) {
            unsigned char r[16];
#define SET(i, cc) __asm__("cmpl %2, %1\n\tset" cc " %0" : "=q"(r[i]) : "r"(a), "r"(b) : "cc");
            SET(0, "a") SET(1, "ae") SET(2, "b") SET(3, "be") SET(4, "e") SET(5, "ne")
            SET(6, "g") SET(7, "ge") SET(8, "l") SET(9, "le") SET(10, "s") SET(11, "ns")
            unsigned ua = (unsigned)a, ub = (unsigned)b;
            CHECK(r[0] == (ua > ub) && r[1] == (ua >= ub) && r[2] == (ua < ub) && r[3] == (ua <= ub));
            CHECK(r[4] == (a == b) && r[5] == (a != b) && r[6] == (a > b) && r[7] == (a >= b));
            CHECK(r[8] == (a < b) && r[9] == (a <= b) && r[10] == (a - b < 0) && r[11] == (a - b >= 0));
            u64 x = ~(u64)0;
            __asm__("cmpl %2, %1\n\tcmovll %1, %k0" : "+r"(x) : "r"(a), "r"(b) : "cc");
            CHECK(x == (a < b ? (uint32_t)a : 0xffffffffu));
        }
}

int main(void) {
    rotates();
    bits();
    exchanges();
    conditions();
    return ok();
}
