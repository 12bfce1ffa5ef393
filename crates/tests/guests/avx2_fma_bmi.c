// relive: needs=avx2,fma,bmi1,bmi2 flags="-mavx2 -mfma -mbmi -mbmi2 -mlzcnt -mf16c -mno-red-zone"
// AVX and AVX2 with their upper halves, gathers, FMA, half floats, BMI1 and BMI2.
#include "check.h"
#include <immintrin.h>

int main(void) {
    __m256i low = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    __m256i turned = _mm256_permutevar8x32_epi32(low, _mm256_sub_epi32(_mm256_set1_epi32(7), low));
    int out[8], table[64];
    _mm256_storeu_si256((__m256i *)out, turned);
    for (int i = 0; i < 8; i++) CHECK(out[i] == 7 - i);
    for (int i = 0; i < 64; i++) table[i] = i * i;
    __m256i gathered = _mm256_i32gather_epi32(table, _mm256_mullo_epi32(low, _mm256_set1_epi32(9)), 4);
    _mm256_storeu_si256((__m256i *)out, gathered);
    for (int i = 0; i < 8; i++) CHECK(out[i] == 81 * i * i);
    // The upper half survives calls into the C library that do not touch it by contract of
    // this very code: it is spilled here, not there.
    __m256d acc = _mm256_setzero_pd();
    for (int i = 0; i < 1000; i++)
        acc = _mm256_fmadd_pd(_mm256_set1_pd(i), _mm256_setr_pd(1, 2, 3, 4), acc);
    double sums[4];
    _mm256_storeu_pd(sums, acc);
    for (int i = 0; i < 4; i++) CHECK(sums[i] == 499500.0 * (i + 1));
    volatile double a = 1.0 + 0x1p-30, b = 1.0 - 0x1p-30, c = -1.0;
    CHECK(__builtin_fma(a, b, c) == -0x1p-60);
    // vzeroupper clears the bits that legacy SSE keeps.
    uint64_t halves[4];
    __asm__ volatile("vpcmpeqd %%ymm3, %%ymm3, %%ymm3\n\tpxor %%xmm3, %%xmm3\n\tvmovdqu %%ymm3, %0"
                     : "=m"(halves) : : "xmm3");
    CHECK(halves[0] == 0 && halves[2] == ~0ull && halves[3] == ~0ull);
    __asm__ volatile("vpcmpeqd %%ymm3, %%ymm3, %%ymm3\n\tvpxor %%xmm3, %%xmm3, %%xmm3\n\tvmovdqu %%ymm3, %0"
                     : "=m"(halves) : : "xmm3");
    CHECK(halves[2] == 0 && halves[3] == 0);
    __asm__ volatile("vpcmpeqd %%ymm4, %%ymm4, %%ymm4\n\tvzeroupper\n\tvmovdqu %%ymm4, %0"
                     : "=m"(halves) : : "xmm4");
    CHECK(halves[1] == ~0ull && halves[2] == 0);
    float half[8];
    __m256 whole = _mm256_setr_ps(0.5f, 1, 2, 3, 4, 5, 6, 65504);
    _mm256_storeu_ps(half, _mm256_cvtph_ps(_mm256_cvtps_ph(whole, 0)));
    CHECK(half[0] == 0.5f && half[7] == 65504.0f);
    // Masked loads must not touch elements that the mask leaves out.
    int masked[8];
    _mm256_storeu_si256((__m256i *)masked, _mm256_maskload_epi32(table, _mm256_setr_epi32(-1, 0, -1, 0, 0, 0, 0, -1)));
    CHECK(masked[0] == 0 && masked[1] == 0 && masked[2] == 4 && masked[7] == 49);
    uint64_t x = 0x123456789abcdef0ull;
    CHECK(_pext_u64(_pdep_u64(0xbeef, 0xf0f0f0f000000000ull), 0xf0f0f0f000000000ull) == 0xbeef);
    CHECK(_blsr_u64(x) == (x & (x - 1)) && _blsi_u64(x) == 16 && _tzcnt_u64(x) == 4);
    CHECK(_tzcnt_u64(0) == 64 && _lzcnt_u64(1) == 63 && _lzcnt_u32(0) == 32);
    CHECK(_bzhi_u64(x, 8) == 0xf0 && _bextr_u64(x, 8, 8) == 0xde && _andn_u64(x, ~0ull) == ~x);
    unsigned long long hi, lo = _mulx_u64(x, x, &hi);
    CHECK(((__uint128_t)hi << 64 | lo) == (__uint128_t)x * x);
    uint64_t rotated, shifted;
    unsigned char carry;
    __asm__("stc\n\trorx $4, %3, %0\n\tshlx %4, %3, %1\n\tsetc %2"
            : "=&r"(rotated), "=&r"(shifted), "=&q"(carry) : "r"(x), "r"((uint64_t)8) : "cc");
    CHECK(carry && rotated == 0x0123456789abcdefull && shifted == x << 8);
    return ok();
}
