// A loop of two instructions, while a timer's signal comes every 100 µs.
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

static volatile long alarms;

static void on_alarm(int number) {
    (void)number;
    alarms++;
}

int main(void) {
    struct itimerval every = {{0, 100}, {0, 100}}, off = {{0, 0}, {0, 0}};
    signal(SIGALRM, on_alarm);
    if (setitimer(ITIMER_REAL, &every, NULL)) return 1;
    unsigned long count = 3000000000;
    __asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(count) : : "cc");
    if (setitimer(ITIMER_REAL, &off, NULL)) return 1;
    // The number differs from run to run; a replay must show its recording's.
    printf("%ld alarms\n", alarms);
    return 0;
}
