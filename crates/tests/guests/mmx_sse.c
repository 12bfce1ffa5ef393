// relive: flags="-msse4.2 -mno-red-zone"
// MMX, SSE to SSE4.2: packed integers and floats, shuffles, string compare, crc, MXCSR.
#include "check.h"
#include <immintrin.h>

static void mmx(void) {
    uint64_t a = 0x00ff7fff80000001ull, b = 0x0001000100010001ull, sum, sat;
    __asm__("movq %2, %%mm0\n\tmovq %3, %%mm1\n\tmovq %%mm0, %%mm2\n\tpaddw %%mm1, %%mm0\n\t"
            "paddsw %%mm1, %%mm2\n\tmovq %%mm0, %0\n\tmovq %%mm2, %1\n\temms"
            : "=m"(sum), "=m"(sat) : "m"(a), "m"(b) : "mm0", "mm1", "mm2");
    CHECK(sum == 0x0100800080010002ull);
    CHECK(sat == 0x01007fff80010002ull);
}

int main(void) {
    mmx();
    __m128i bytes = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    __m128i turned = _mm_shuffle_epi8(bytes, _mm_sub_epi8(_mm_set1_epi8(15), bytes));
    unsigned char out[16];
    _mm_storeu_si128((__m128i *)out, turned);
    for (int i = 0; i < 16; i++) CHECK(out[i] == 15 - i);
    CHECK(_mm_movemask_epi8(_mm_cmpgt_epi8(bytes, _mm_set1_epi8(7))) == 0xff00);
    __m128i text = _mm_loadu_si128((const __m128i *)"hello, wide text");
    __m128i set = _mm_loadu_si128((const __m128i *)"w\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    CHECK(_mm_cmpistri(set, text, _SIDD_CMP_EQUAL_ANY) == 7);
    uint32_t crc = ~0u;
    for (const char *p = "123456789"; *p; p++) crc = _mm_crc32_u8(crc, (unsigned char)*p);
    CHECK(~crc == 0xe3069283u);
    CHECK(_mm_popcnt_u64(0xf0f0f0f0f0f0f0f0ull) == 32);
    __m128 floats = _mm_setr_ps(1.5f, -2.5f, 3.5f, -4.5f);
    float rounded[4];
    _mm_storeu_ps(rounded, _mm_round_ps(floats, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
    CHECK(rounded[0] == 2 && rounded[1] == -2 && rounded[2] == 4 && rounded[3] == -4);
    CHECK(_mm_cvtss_f32(_mm_dp_ps(floats, floats, 0xf1)) == 41.0f);
    // Rounding mode and sticky flags live in MXCSR.
    unsigned saved = _mm_getcsr();
    CHECK((saved & 0xffc0) == 0x1f80);
    volatile double one = 1.0, ten = 10.0;
    _mm_setcsr(0x1f80 | 0x4000); // up
    volatile double up = one / ten;
    _mm_setcsr(0x1f80 | 0x2000); // down
    volatile double down = one / ten;
    CHECK((_mm_getcsr() & 0x20) != 0); // inexact
    _mm_setcsr(saved);
    CHECK(up > down);
    __m128d pair = _mm_setr_pd(2.0, 9.0);
    double roots[2];
    _mm_storeu_pd(roots, _mm_sqrt_pd(pair));
    CHECK(roots[1] == 3.0 && roots[0] > 1.41421356 && roots[0] < 1.41421357);
    CHECK(_mm_cvttsd_si64(_mm_set_sd(-7.9)) == -7 && _mm_cvtsd_si64(_mm_set_sd(-7.9)) == -8);
    __m128i mask = _mm_setr_epi8(-1, 0, 0, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1);
    memset(out, 0xee, sizeof out);
    _mm_maskmoveu_si128(bytes, mask, (char *)out);
    _mm_sfence();
    CHECK(out[0] == 0 && out[1] == 0xee && out[3] == 3 && out[15] == 15);
    long long streamed;
    _mm_stream_si64(&streamed, 42);
    _mm_mfence();
    CHECK(streamed == 42);
    return ok();
}
