// relive: link=pie,static,static-pie
// A wild store faults wherever it goes: also where a translator might keep its code and tables.
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <errno.h>
#include "check.h"

static sigjmp_buf back;
static volatile uintptr_t where;

static void on_fault(int sig, siginfo_t *info, void *context) {
    (void)sig, (void)context;
    where = (uintptr_t)info->si_addr;
    siglongjmp(back, 1);
}

static void store1(uintptr_t at) { *(volatile char *)at = 0; }
static void store8(uintptr_t at) { *(volatile uint64_t *)at = 0x4141414141414141; }
static void store16(uintptr_t at) {
    __asm__ volatile("movdqu %%xmm0, (%0)" ::"r"(at) : "memory");
}
static void string(uintptr_t at) {
    uint64_t n = 64;
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(0) : "memory");
}
static void locked(uintptr_t at) {
    __asm__ volatile("lock addq $1, (%0)" ::"r"(at) : "memory");
}

static int faults(void (*store)(uintptr_t), uintptr_t at) {
    where = 0;
    if (sigsetjmp(back, 1))
        return where >= at && where < at + 64;
    store(at);
    return 0;
}

static void all(void) {
    static void (*const stores[])(uintptr_t) = {store1, store8, store16, string, locked};
    uintptr_t main_low = (uintptr_t)&all & 0x3fffffff;
    uintptr_t at[] = {
        0x40000000, 0x40000040, 0x40001000, 0x40010000, 0x41000000, 0x53e00000, 0x53ff0000,
        0x60000000 + 8 * main_low, 0x60000000 + 8 * (main_low & ~0xfffUL), 0x60800000,
    };
    for (unsigned i = 0; i < sizeof at / sizeof *at; i++) {
        for (unsigned j = 0; j < sizeof stores / sizeof *stores; j++)
            CHECK(faults(stores[j], at[i]));
        int fd = open("/proc/self/cmdline", O_RDONLY);
        CHECK(fd >= 0);
        CHECK(read(fd, (void *)at[i], 4) == -1 && errno == EFAULT);
        close(fd);
    }
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    CHECK(sigaction(SIGBUS, &action, NULL) == 0);
    all();
    // Tables of a translator that were there at a fork, and later ones, in parent and child.
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            all();
            _exit(i);
        }
        all();
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == i << 8);
    }
    puts("ok");
}
