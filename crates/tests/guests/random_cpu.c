// relive: output=free link=pie,static
// Values that differ from run to run: getrandom, /dev/urandom, rdtsc, cpuid, rdrand, rdseed,
// rdpid, xgetbv, addresses, pids; replay must print the same.
#include "check.h"
#include <cpuid.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/random.h>

int main(void) {
    uint64_t words[4];
    CHECK(getrandom(words, sizeof words, 0) == sizeof words && (words[0] | words[1] | words[2]) != 0);
    printf("%lx %lx\n", (long)words[0], (long)words[3]);
    int fd = open("/dev/urandom", O_RDONLY);
    CHECK(fd >= 0 && read(fd, words, 8) == 8);
    printf("%lx\n", (long)words[0]);
    unsigned a, b, c, d;
    CHECK(__get_cpuid(0, &a, &b, &c, &d) && a >= 1);
    printf("%x %x %x %x\n", a, b, c, d);
    for (int i = 0; i < 100; i++) CHECK(__get_cpuid(1, &a, &b, &c, &d) && (d & bit_SSE2));
    int has_rdrand = !!(c & bit_RDRND), has_xsave = !!(c & bit_OSXSAVE);
    if (has_rdrand) {
        unsigned char good = 0;
        uint64_t r = 0;
        uint32_t small = ~0u;
        for (int i = 0; i < 100 && !good; i++) __asm__ volatile("rdrand %0\n\tsetc %1" : "=r"(r), "=q"(good) : : "cc");
        CHECK(good);
        __asm__ volatile("rdrand %0" : "=r"(small) : : "cc");
        printf("%lx %x\n", (long)r, small);
    }
    if (has_xsave) {
        uint32_t low, high;
        __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
        CHECK((low & 3) == 3);
    }
    CHECK(__get_cpuid_count(7, 0, &a, &b, &c, &d));
    if (b & bit_RDSEED) {
        uint64_t seed;
        __asm__ volatile("rdseed %0" : "=r"(seed) : : "cc");
        printf("%lx\n", (long)seed);
    }
    if (c & bit_RDPID) {
        uint64_t cpu;
        __asm__ volatile("rdpid %0" : "=r"(cpu));
        CHECK((int)(cpu & 0xfff) < 4096);
    }
    unsigned char *random = (unsigned char *)getauxval(AT_RANDOM);
    CHECK(random != NULL && getauxval(AT_PAGESZ) == 4096 && getauxval(AT_ENTRY) != 0 && getauxval(AT_PHDR) != 0);
    CHECK(getauxval(AT_UID) == getuid() && getauxval(AT_SECURE) == 0);
    printf("%02x%02x %p %p %d %d %d\n", random[0], random[15], (void *)&fd, (void *)main, (int)getpid(), (int)getppid(),
           sched_getcpu() >= 0);
    return ok();
}
