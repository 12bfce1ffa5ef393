// relive: link=pie,static output=free sketch=yes
// setitimer at 100 µs against a loop of two instructions without any system call: signals
// must get in, and the loop's registers and flags must come back whole.
#include "fault.h"
#include <sys/time.h>

static volatile long ticks;
extern const char loop_start[], loop_end[];
static volatile long inside;

static void on_alarm(int number, siginfo_t *info, void *context) {
    CHECK(number == SIGALRM && info->si_code == SI_KERNEL);
    const char *pc = (const char *)REG(context, RIP);
    if (pc >= loop_start && pc <= loop_end) inside++;
    ticks++;
}

int main(void) {
    handle(SIGALRM, on_alarm, SA_RESTART);
    struct itimerval every = {{0, 100}, {0, 100}}, off = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    unsigned long rounds = 0;
    do {
        unsigned long count = 20000, sum = 0;
        __asm__ volatile(".globl loop_start\nloop_start: lea 1(%1), %1\n\tdec %0\n\tjnz loop_start\n"
                         ".globl loop_end\nloop_end:"
                         : "+r"(count), "+r"(sum) : : "cc");
        CHECK(sum == 20000);
        rounds++;
    } while (ticks < 200);
    CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
    CHECK(inside > 0);
    printf("rounds %lu inside %ld\n", rounds, inside);
    return ok();
}
