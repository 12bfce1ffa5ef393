// relive:
// A program that steps itself: the trap flag set by popf and by returning from a signal, a SIGTRAP
// behind each instruction, and the state that each of them sees.
#include "check.h"
#include <sys/syscall.h>
#include <ucontext.h>

static volatile int traps, limit;
static volatile unsigned long places[4096];
static volatile int flag_seen;

static void step(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    CHECK(number == SIGTRAP);
    if (info->si_code == TRAP_TRACE) {
        CHECK(registers[REG_TRAPNO] == 1 && info->si_addr == (void *)registers[REG_RIP]);
        places[traps++ % 4096] = (unsigned long)registers[REG_RIP];
        flag_seen = (registers[REG_EFL] & 0x100) != 0;
    }
    // Not in the handler itself.
    unsigned long here;
    __asm__ volatile("pushfq; popq %0" : "=r"(here));
    CHECK((here & 0x100) == 0);
    if (traps < limit) registers[REG_EFL] |= 0x100;
    else if (limit) registers[REG_EFL] &= ~0x100L;
}

#define SET "pushfq; orl $0x100, (%%rsp); popfq;"
#define CLEAR "pushfq; andl $~0x100, (%%rsp); popfq;"

__attribute__((noinline)) static int sum(int n) {
    int all = 0;
    for (volatile int i = 0; i < n; i++) all += i;
    return all;
}

static void child_dies(int ignored) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGTRAP, ignored ? SIG_IGN : SIG_DFL);
        __asm__ volatile(SET "nop" : : : "memory", "cc");
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGTRAP);
}

int main(void) {
    handle(SIGTRAP, step, 0);
    // Three nops, and the three instructions that clear the flag.
    __asm__ volatile(SET "nop; nop; nop;" CLEAR "nop" : : : "memory", "cc");
    CHECK(traps == 6 && places[1] == places[0] + 1 && places[2] == places[0] + 2);
    CHECK(flag_seen == 0);

    // pushf shows it, and setting it again changes nothing.
    unsigned long flags, again;
    traps = 0;
    __asm__ volatile(SET "pushfq; popq %0;" SET "pushfq; popq %1;" CLEAR
                     : "=&r"(flags), "=&r"(again) : : "memory", "cc");
    CHECK((flags & 0x100) && (again & 0x100) && traps == 10);

    // Branches, calls, a clock; a system call has no trap of its own.
    traps = 0;
    long id;
    __asm__ volatile("subq $128, %%rsp;" SET
                     "jmp 1f; nop; 1: call 2f; jmp 3f; 2: ret; 3: cld; rdtsc; movl %1, %%eax; syscall;" CLEAR
                     "addq $128, %%rsp"
                     : "=&a"(id) : "i"(SYS_getpid) : "memory", "cc", "rcx", "r11", "rdx");
    CHECK(id == getpid() && traps == 10);

    // A return from a signal sets it, and takes it back after a while.
    traps = 0, limit = 100;
    CHECK(raise(SIGTRAP) == 0);
    CHECK(sum(10) == 45 && traps <= 100);
    while (traps < 100) sum(1);
    CHECK(traps == 100);
    traps = 0, limit = 2000;
    CHECK(raise(SIGTRAP) == 0);
    printf("stepped through %s\n", "printf");
    while (traps < 2000) sum(1);
    limit = 0;
    child_dies(0);
    child_dies(1);
    return ok();
}
