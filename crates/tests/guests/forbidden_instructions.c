// relive:
// A thread forbids itself rdtsc (PR_SET_TSC) and cpuid (ARCH_SET_CPUID): SIGSEGV, for its children
// too, and not for other threads; and takes it back.
#include "check.h"
#include <asm/prctl.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>

static __thread sigjmp_buf back;

static void refused(int number, siginfo_t *info, void *context) {
    ucontext_t *at = context;
    CHECK(number == SIGSEGV && info->si_code == SI_KERNEL && at->uc_mcontext.gregs[REG_TRAPNO] == 13);
    siglongjmp(back, 1);
}

static int counter(void) {
    if (sigsetjmp(back, 1)) return 0;
    __asm__ volatile("rdtsc" : : : "rax", "rdx");
    __asm__ volatile("rdtscp" : : : "rax", "rcx", "rdx");
    return 1;
}

static int identity(void) {
    if (sigsetjmp(back, 1)) return 0;
    __asm__ volatile("cpuid" : : "a"(0) : "rbx", "rcx", "rdx");
    return 1;
}

static int may(void) {
    int mode = 0;
    CHECK(prctl(PR_GET_TSC, &mode) == 0);
    CHECK(counter() == (mode == PR_TSC_ENABLE));
    return mode == PR_TSC_ENABLE;
}

static void *others(void *argument) {
    (void)argument;
    CHECK(!may() && prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0 && may());
    return NULL;
}

int main(void) {
    handle(SIGSEGV, refused, 0);
    for (int i = 0; i < 3; i++) CHECK(may());
    CHECK(prctl(PR_SET_TSC, 77) == -1 && errno == EINVAL);
    CHECK(prctl(PR_SET_TSC, PR_TSC_SIGSEGV) == 0);
    for (int i = 0; i < 3; i++) CHECK(!may());
    pthread_t thread;
    CHECK0(pthread_create(&thread, NULL, others, NULL));
    CHECK0(pthread_join(thread, NULL));
    CHECK(!may());
    pid_t child = fork();
    if (child == 0) _exit(may() ? 1 : 0);
    expect_exit(child, 0);
    child = vfork();
    if (child == 0) {
        prctl(PR_SET_TSC, PR_TSC_ENABLE);
        _exit(0);
    }
    expect_exit(child, 0);
    CHECK(!may());
    CHECK(prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0 && may());

    // Not every processor can; Relive always does.
    CHECK(syscall(SYS_arch_prctl, ARCH_GET_CPUID, 0) == 1 && identity());
    if (syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0) == 0) {
        CHECK(syscall(SYS_arch_prctl, ARCH_GET_CPUID, 0) == 0 && !identity() && counter());
        CHECK(syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1) == 0 && identity());
    }
    return ok();
}
