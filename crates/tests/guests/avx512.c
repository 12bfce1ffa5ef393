// relive: needs=avx512f,avx512bw,avx512vl,avx512dq flags="-mavx512f -mavx512bw -mavx512vl -mavx512dq"
// AVX-512: mask registers, zmm16 to zmm31, embedded broadcast, compress and expand.
#include "check.h"
#include <immintrin.h>

int main(void) {
    int in[16], out[16];
    for (int i = 0; i < 16; i++) in[i] = i * 3;
    __m512i v = _mm512_loadu_si512(in);
    __mmask16 odd = _mm512_test_epi32_mask(v, _mm512_set1_epi32(1));
    CHECK(odd == 0xaaaa);
    memset(out, 0, sizeof out);
    _mm512_mask_compressstoreu_epi32(out, odd, v);
    for (int i = 0; i < 8; i++) CHECK(out[i] == (2 * i + 1) * 3);
    CHECK(out[8] == 0 && _mm512_reduce_add_epi32(v) == 360);
    // The upper sixteen registers and a mask across a system call.
    uint64_t before[8], after[8], mask = 0;
    for (int i = 0; i < 8; i++) before[i] = 0x1111111111111111ull * (uint64_t)(i + 1);
    long pid;
    __asm__ volatile("vmovdqu64 %3, %%zmm29\n\tmovl $0xbeef, %%eax\n\tkmovw %%eax, %%k5\n\t"
                     "movl $39, %%eax\n\tsyscall\n\tvmovdqu64 %%zmm29, %1\n\tkmovw %%k5, %%ecx\n\tmovq %%rcx, %2"
                     : "=&a"(pid), "=m"(after), "=m"(mask) : "m"(before) : "rcx", "r11", "xmm29", "k5", "memory");
    CHECK(pid == getpid() && mask == 0xbeef && memcmp(before, after, 64) == 0);
    double broadcast = 2.5, sums[8];
    __asm__("vpxorq %%zmm20, %%zmm20, %%zmm20\n\tvaddpd %1%{1to8%}, %%zmm20, %%zmm21\n\tvmovupd %%zmm21, %0"
            : "=m"(sums) : "m"(broadcast) : "xmm20", "xmm21");
    for (int i = 0; i < 8; i++) CHECK(sums[i] == 2.5);
    __m128i small = _mm_maskz_add_epi8(0x00ff, _mm_set1_epi8(100), _mm_set1_epi8(27));
    CHECK(_mm_extract_epi8(small, 7) == 127 && _mm_extract_epi8(small, 8) == 0);
    return ok();
}
