// relive: link=pie,static output=free
// Clocks: they never go back, agree with each other, and sleeping passes at least the time asked.
#include "check.h"
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/times.h>
#include <time.h>
#include <x86intrin.h>

static int64_t ns(clockid_t clock) {
    struct timespec t;
    CHECK(clock_gettime(clock, &t) == 0 && t.tv_nsec >= 0 && t.tv_nsec < 1000000000);
    return t.tv_sec * 1000000000L + t.tv_nsec;
}

int main(void) {
    clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME,
                          CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID};
    for (int c = 0; c < 6; c++) {
        int64_t last = ns(clocks[c]);
        for (int i = 0; i < 300; i++) {
            int64_t now = ns(clocks[c]);
            CHECK(now >= last);
            last = now;
        }
    }
    uint64_t tsc = __rdtsc();
    unsigned aux;
    for (int i = 0; i < 1000; i++) {
        uint64_t now = i % 2 ? __rdtsc() : __rdtscp(&aux);
        CHECK(now >= tsc);
        tsc = now;
    }
    int64_t before = ns(CLOCK_MONOTONIC);
    struct timespec nap = {0, 2000000};
    CHECK(nanosleep(&nap, NULL) == 0 && ns(CLOCK_MONOTONIC) - before >= 2000000);
    before = ns(CLOCK_MONOTONIC);
    struct timespec until = {before / 1000000000, before % 1000000000 + 1000000};
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == 0);
    CHECK(ns(CLOCK_MONOTONIC) - before >= 1000000 && usleep(100) == 0);
    struct timeval tv;
    CHECK(gettimeofday(&tv, NULL) == 0 && tv.tv_usec < 1000000);
    // time reads the coarse clock, which is up to a tick of the kernel behind the other.
    struct timespec coarse;
    CHECK(clock_gettime(CLOCK_REALTIME_COARSE, &coarse) == 0 && time(NULL) >= coarse.tv_sec);
    struct timespec resolution;
    CHECK(clock_getres(CLOCK_MONOTONIC, &resolution) == 0 && resolution.tv_nsec >= 1);
    struct tms t;
    struct rusage usage;
    CHECK(times(&t) != (clock_t)-1 && getrusage(RUSAGE_SELF, &usage) == 0 && usage.ru_maxrss > 0 && clock() >= 0);
    CHECK(clock_gettime(-1000, &nap) == -1 && errno == EINVAL);
    struct tm *parts = gmtime(&tv.tv_sec);
    CHECK(parts->tm_year >= 120);
    printf("%ld %ld %lu\n", (long)tv.tv_sec, (long)tv.tv_usec, (unsigned long)tsc);
    return ok();
}
