// relive: threads=yes sketch=yes
// EFLAGS.AC: with it the processor refuses accesses that are not aligned. Those of this program are, but for one; so must be those that nobody
// sees around atomic instructions, calls, and repeated stores and copies.
#define _GNU_SOURCE
#include <pthread.h>
#include <ucontext.h>

#include "check.h"

#define AC "0x40000"
#define WITH_AC "pushfq\n\torl $" AC ", (%%rsp)\n\tpopfq\n\t"
#define WITHOUT_AC "\n\tpushfq\n\tandl $~" AC ", (%%rsp)\n\tpopfq"

static _Alignas(64) unsigned char from[4096], to[4096];
static _Alignas(8) int counter;
static volatile sig_atomic_t refused;

static void refuse(int sig, siginfo_t *info, void *context) {
    (void)sig, (void)info;
    ucontext_t *there = context;
    refused++;
    // Goes on behind `mov (%rbx), %eax`, without the flag.
    there->uc_mcontext.gregs[REG_RIP] += 2;
    there->uc_mcontext.gregs[REG_EFL] &= ~0x40000l;
}

static void *work(void *arg) {
    for (int i = 0; i < 200; i++) {
        void *source = from + 8 * (i % 32), *target = to + 8 * (i % 16);
        long words = 300, done = 39;
        __asm__ volatile(WITH_AC "lock incl (%[counter])\n\trep movsq\n\tlock incl (%[counter])" WITHOUT_AC
                         : "+S"(source), "+D"(target), "+c"(words)
                         : [counter] "r"(&counter)
                         : "memory", "cc");
        target = to, words = 20;
        __asm__ volatile(WITH_AC "rep stosq\n\tsyscall" WITHOUT_AC
                         : "+D"(target), "+c"(words), "+a"(done)
                         :
                         : "memory", "cc", "r11");
        CHECK(done == getpid());
        __asm__ volatile(WITH_AC "rdtsc" WITHOUT_AC : : : "rax", "rdx", "cc");
    }
    return arg;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = refuse, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGBUS, &action, NULL) == 0);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(counter == 800);
    __asm__ volatile(WITH_AC "mov (%%rbx), %%eax" WITHOUT_AC : : "b"(from + 1) : "rax", "cc");
    CHECK(refused == 1);
    puts("ok");
    return 0;
}
