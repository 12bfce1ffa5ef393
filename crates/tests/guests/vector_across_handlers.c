// relive: needs=avx flags="-mavx -mno-red-zone" output=free
// Vector, mask, x87 and general registers survive handlers that overwrite all of them, at
// whatever instruction the signal strikes; a handler can also change them through the frame.
#include "fault.h"
#include <sys/time.h>

static volatile long hits;

static void on_alarm(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    (void)context;
    hits++;
    __asm__ volatile("vpcmpeqd %%xmm0, %%xmm0, %%xmm0\n\tvinsertf128 $1, %%xmm0, %%ymm0, %%ymm0\n\t"
                     "vmovaps %%ymm0, %%ymm1\n\tvmovaps %%ymm0, %%ymm7\n\tvmovaps %%ymm0, %%ymm15\n\t"
                     "fninit\n\tfldpi\n\tfldpi"
                     : : : "xmm0", "xmm1", "xmm7", "xmm15");
}

static void on_usr(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    struct _libc_fpstate *fp = ((ucontext_t *)context)->uc_mcontext.fpregs;
    CHECK(fp->_xmm[3].element[0] == 0x33333333 && fp->_xmm[3].element[3] == 0x33333333);
    fp->_xmm[3].element[0] = 0x44444444;
}

int main(void) {
    handle(SIGALRM, on_alarm, SA_RESTART);
    handle(SIGUSR1, on_usr, 0);
    struct itimerval every = {{0, 200}, {0, 200}}, off = {{0, 0}, {0, 0}};
    uint64_t in[4] = {1, 2, 3, 4}, a[4], b[4], c[4];
    long double on_stack, want = 0;
    __asm__ volatile("fldl2e\n\tfstpt %0" : "=m"(want));
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    do {
        long count = 3000;
        __asm__ volatile("vmovdqu %5, %%ymm1\n\tvpermilpd $5, %%ymm1, %%ymm7\n\tvmovaps %%ymm7, %%ymm15\n\tfldl2e\n"
                         "1: dec %0\n\tjnz 1b\n\t"
                         "vmovdqu %%ymm1, %1\n\tvmovdqu %%ymm7, %2\n\tvmovdqu %%ymm15, %3\n\tfstpt %4"
                         : "+r"(count), "=m"(a), "=m"(b), "=m"(c), "=m"(on_stack)
                         : "m"(in)
                         : "xmm1", "xmm7", "xmm15", "cc", "memory");
        CHECK(memcmp(a, in, 32) == 0 && b[0] == 2 && b[1] == 1 && b[2] == 4 && b[3] == 3);
        CHECK(memcmp(b, c, 32) == 0 && on_stack == want);
    } while (hits < 100);
    CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
    uint32_t x[4], high[4];
    long result;
    __asm__ volatile("mov $0x33333333, %%eax\n\tvmovd %%eax, %%xmm3\n\tvpshufd $0, %%xmm3, %%xmm3\n\t"
                     "vinsertf128 $1, %%xmm3, %%ymm3, %%ymm3\n\tmov $39, %%eax\n\tsyscall\n\t"
                     "mov %%eax, %%edi\n\tmov $10, %%esi\n\tmov $62, %%eax\n\tsyscall\n\t"
                     "vmovdqu %%xmm3, %1\n\tvextractf128 $1, %%ymm3, %2"
                     : "=&a"(result), "=m"(x), "=m"(high)
                     : : "rcx", "rdi", "rsi", "r11", "xmm3", "memory");
    CHECK(result == 0 && x[0] == 0x44444444 && x[1] == 0x33333333 && high[0] == 0x33333333);
    return ok();
}
