// relive: link=pie,static flags="-mno-red-zone"
// Every flag of the two-operand arithmetic instructions, at four widths, against flags
// computed in C from their definitions.
#include "check.h"

enum { CF = 1, PF = 4, AF = 16, ZF = 64, SF = 128, OF = 2048 };
typedef uint64_t u64;

static const u64 values[] = {0, 1, 2, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffffff,
                             0x80000000, 0xffffffff, 0x7fffffffffffffff, 0x8000000000000000,
                             0xffffffffffffffff, 0x123456789abcdef0};

// Runs one instruction with a chosen carry in; returns the flags, stores the result.
#define OP(name, suffix, type)                                                            \
    static u64 name##_##suffix(u64 a, u64 b, int carry, u64 *result) {                    \
        type x = (type)a, y = (type)b;                                                    \
        u64 flags;                                                                        \
        __asm__ volatile("btl $0, %3\n\t" #name #suffix " %2, %0\n\tpushfq\n\tpopq %1"     \
                         : "+&r"(x), "=&r"(flags)                                         \
                         : "r"(y), "r"(carry)                                             \
                         : "cc", "memory");                                               \
        *result = x;                                                                      \
        return flags;                                                                     \
    }
#define ALL(name) OP(name, b, uint8_t) OP(name, w, uint16_t) OP(name, l, uint32_t) OP(name, q, u64)
ALL(add) ALL(adc) ALL(sub) ALL(sbb) ALL(cmp) ALL(and) ALL(or) ALL(xor)

typedef u64 (*op_fn)(u64, u64, int, u64 *);
enum { ADD, ADC, SUB, SBB, CMP, AND, OR, XOR };
#define ROW(name) {name##_b, name##_w, name##_l, name##_q}
static const op_fn ops[8][4] = {ROW(add), ROW(adc), ROW(sub), ROW(sbb),
                                ROW(cmp), ROW(and), ROW(or),  ROW(xor)};

static void one(int op, int width, u64 a, u64 b, int carry) {
    int bits = 8 << width;
    u64 mask = bits == 64 ? ~(u64)0 : ((u64)1 << bits) - 1, top = (u64)1 << (bits - 1);
    u64 got, flags = ops[op][width](a, b, carry, &got), r, want = 0;
    a &= mask;
    b &= mask;
    int c = (op == ADC || op == SBB) ? carry : 0, logic = op >= AND;
    if (op == ADD || op == ADC) {
        r = (a + b + c) & mask;
        want |= (((a & b) | ((a | b) & ~r)) & top) ? CF : 0;
        want |= ((a ^ r) & (b ^ r) & top) ? OF : 0;
    } else if (!logic) {
        r = (a - b - c) & mask;
        want |= (((~a & b) | ((~a | b) & r)) & top) ? CF : 0;
        want |= ((a ^ b) & (a ^ r) & top) ? OF : 0;
    } else {
        r = op == AND ? a & b : op == OR ? a | b : a ^ b;
    }
    want |= r == 0 ? ZF : 0;
    want |= r & top ? SF : 0;
    want |= __builtin_parity((unsigned)r & 0xff) ? 0 : PF;
    if (!logic) want |= ((a ^ b ^ r) & 16) ? AF : 0;
    u64 compared = CF | PF | ZF | SF | OF | (logic ? 0 : AF);
    CHECK(got == (op == CMP ? a : r));
    CHECK((flags & compared) == want);
}

int main(void) {
    int n = sizeof values / sizeof *values;
    for (int op = 0; op < 8; op++)
        for (int width = 0; width < 4; width++)
            for (int i = 0; i < n; i++)
                for (int j = 0; j < n; j++)
                    for (int carry = 0; carry < 2; carry++) one(op, width, values[i], values[j], carry);
    return ok();
}
