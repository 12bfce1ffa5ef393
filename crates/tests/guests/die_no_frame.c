// relive: signal=SIGSEGV link=pie,static
// A handler that cannot have its frame, in one of two threads, ends the process.
#include "check.h"
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static void never(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    _exit(98);
}

static void *sends(void *arg) {
    long pid = getpid(), tid = gettid();
    __asm__ volatile("xor %%esp, %%esp\n\tsyscall\n\tud2"
                     :
                     : "a"((long)SYS_tgkill), "D"(pid), "S"(tid), "d"((long)SIGUSR1)
                     : "memory");
    return arg;
}

int main(void) {
    struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
    handle(SIGUSR1, never, 0);
    handle(SIGSEGV, never, 0);
    puts("before");
    fflush(stdout);
    pthread_t thread;
    CHECK0(pthread_create(&thread, NULL, sends, NULL));
    for (;;) pause();
}
