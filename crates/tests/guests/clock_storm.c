// relive: output=free sketch=yes
// Readings of clocks and counters mixed with system calls, under a fast timer whose handler
// reads clocks too: nothing goes back, and no other register or flag changes.
#include "check.h"
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <x86intrin.h>

static volatile uint64_t ticks;
static volatile int64_t last_in_handler;
static volatile sig_atomic_t hits;

static int64_t ns(void) {
    struct timespec t;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

static void on_alarm(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    (void)context;
    uint64_t now = __rdtsc();
    CHECK(now > ticks);
    ticks = now;
    int64_t time = ns();
    CHECK(time >= last_in_handler);
    last_in_handler = time;
    hits++;
}

// rdtsc and rdtscp change their results and nothing else.
static uint64_t bare(int with_processor) {
    uint64_t low, high, flags_before, flags_after, aux = 0x1122334455667788;
    uint64_t b = 2, si = 3, di = 4, r8, r11;
    double d = 1.5 + with_processor;
    __asm__ volatile("mov $0x7fffffff, %%eax\n"
                     "mov $5, %%r8d\n"
                     "mov $6, %%r11d\n"
                     "movq %[d], %%xmm9\n"
                     "add $1, %%eax\n" // overflow, sign, adjust
                     "stc\n"
                     "lea -128(%%rsp), %%rsp\n"
                     "pushfq\n"
                     "pop %[before]\n"
                     "lea 128(%%rsp), %%rsp\n"
                     "cmpl $0, %[kind]\n" // flags live across the reading
                     "jne 1f\n"
                     "lea -128(%%rsp), %%rsp\n"
                     "push %[before]\n"
                     "popfq\n"
                     "lea 128(%%rsp), %%rsp\n"
                     "rdtsc\n"
                     "jmp 2f\n"
                     "1: lea -128(%%rsp), %%rsp\n"
                     "push %[before]\n"
                     "popfq\n"
                     "lea 128(%%rsp), %%rsp\n"
                     "rdtscp\n"
                     "2: lea -128(%%rsp), %%rsp\n"
                     "pushfq\n"
                     "pop %[after]\n"
                     "lea 128(%%rsp), %%rsp\n"
                     "mov %%r8, %[r8]\n"
                     "mov %%r11, %[r11]\n"
                     "movq %%xmm9, %[d]\n"
                     : "=&a"(low), "=&d"(high), "+c"(aux), "+b"(b), "+S"(si), "+D"(di), [r8] "=&m"(r8),
                       [r11] "=&m"(r11), [before] "=&r"(flags_before), [after] "=&r"(flags_after), [d] "+x"(d)
                     : [kind] "m"(with_processor)
                     : "r8", "r11", "xmm9", "memory", "cc");
    CHECK(b == 2 && si == 3 && di == 4 && r8 == 5 && r11 == 6);
    CHECK(low >> 32 == 0 && high >> 32 == 0 && d == 1.5 + with_processor);
    CHECK(((flags_before ^ flags_after) & 0x8d5) == 0 && (flags_before & 0x881) == 0x881);
    CHECK(with_processor ? aux < 1u << 31 : aux == 0x1122334455667788);
    return high << 32 | low;
}

int main(void) {
    handle(SIGALRM, on_alarm, SA_RESTART);
    struct itimerval fast = {{0, 200}, {0, 200}}, none = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &fast, NULL) == 0);
    uint64_t counter = 0;
    int64_t time = 0;
    long rounds = 0;
    while (hits < 60 || rounds < 400) {
        for (int i = 0; i < 40; i++) {
            uint64_t now = bare(i & 1);
            CHECK(now > counter);
            counter = now;
            int64_t t = ns();
            CHECK(t >= time);
            time = t;
        }
        if (rounds % 3 == 0) CHECK(getppid() > 0);
        if (rounds % 5 == 0) {
            struct timespec t;
            CHECK(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t) == 0);
            CHECK(t.tv_sec * 1000000000L + t.tv_nsec >= time);
        }
        rounds++;
    }
    CHECK(setitimer(ITIMER_REAL, &none, NULL) == 0);
    printf("%d %ld %lu %ld\n", (int)hits, rounds, (unsigned long)counter, (long)time);
    return ok();
}
