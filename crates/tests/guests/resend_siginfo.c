// relive: link=pie,static
// Handlers of crashes send their signal again with the siginfo that they got, as crash reporters
// do: a fault's code, but the kernel was asked to send it. rt_tgsigqueueinfo, rt_sigqueueinfo and
// pidfd_send_signal allow that to oneself only.
#include "check.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <pthread.h>

enum way { THREAD, PROCESS, PIDFD, WAYS };
static enum way way;
static volatile int calls, codes[2];
static void *volatile addrs[2];

static void send_again(int number, siginfo_t *info) {
    if (way == THREAD) {
        CHECK(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), number, info) == 0);
    } else if (way == PROCESS) {
        CHECK(syscall(SYS_rt_sigqueueinfo, getpid(), number, info) == 0);
    } else {
        int fd = syscall(SYS_pidfd_open, getpid(), 0);
        CHECK(fd >= 0);
        CHECK(syscall(SYS_pidfd_send_signal, fd, number, info, 0) == 0);
    }
}

// Takes its leave: held back until the handler returns, the signal then ends the process.
static void die_of_it(int number, siginfo_t *info, void *context) {
    (void)context;
    CHECK(signal(number, SIG_DFL) != SIG_ERR);
    send_again(number, info);
}

// With SA_RESETHAND | SA_NODEFER: the call itself does not return.
static void die_at_once(int number, siginfo_t *info, void *context) {
    (void)context;
    send_again(number, info);
    _exit(98);
}

// Called for the fault, then for its own sending; with SA_NODEFER nested.
static void twice(int number, siginfo_t *info, void *context) {
    (void)context;
    CHECK(calls < 2 && info->si_signo == number);
    codes[calls] = info->si_code;
    addrs[calls] = info->si_addr;
    if (++calls == 1) {
        send_again(number, info);
        return;
    }
    CHECK(codes[0] == codes[1] && addrs[0] == addrs[1] && codes[0] > 0);
    _exit(7);
}

static void crash(int number) {
    switch (number) {
    case SIGSEGV: *(volatile int *)0x123458 = 1; break;
    case SIGILL: __asm__ volatile("ud2"); break;
    case SIGTRAP: __asm__ volatile("int3"); break;
    case SIGFPE: __asm__ volatile("xor %%ecx, %%ecx; idiv %%ecx" ::: "eax", "ecx", "edx", "cc"); break;
    case SIGBUS: {
        FILE *file = tmpfile();
        CHECK(file);
        volatile char *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
        CHECK(at != MAP_FAILED);
        at[0] = 1;
    }
    }
}

static void *crash_in_thread(void *number) {
    crash(*(int *)number);
    return NULL;
}

static void expect_signal(pid_t child, int wanted) {
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == wanted);
}

static pid_t run(int number, void (*handler)(int, siginfo_t *, void *), int flags, int thread) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child) return child;
    handle(number, handler, flags);
    if (thread) {
        pthread_t other;
        CHECK0(pthread_create(&other, NULL, crash_in_thread, &number));
        CHECK0(pthread_join(other, NULL));
    } else {
        crash(number);
    }
    // Behind int3 the thread goes on here; a signal that is sent again came before this line.
    _exit(97);
}

int main(void) {
    struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
    static const int all[] = {SIGSEGV, SIGILL, SIGTRAP, SIGBUS, SIGFPE};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
        int number = all[i];
        for (way = THREAD; way < WAYS; way++) {
            expect_signal(run(number, die_of_it, 0, 0), number);
            expect_signal(run(number, die_at_once, (int)(SA_RESETHAND | SA_NODEFER), 0), number);
            expect_exit(run(number, twice, 0, 0), 7);
            expect_exit(run(number, twice, SA_NODEFER, 0), 7);
        }
        way = THREAD;
        expect_signal(run(number, die_of_it, 0, 1), number);
        expect_exit(run(number, twice, 0, 1), 7);
    }
    // A code of its own making, while nothing has faulted.
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_code = SEGV_MAPERR;
    info.si_addr = (void *)0xabc0;
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        handle(SIGSEGV, twice, 0);
        send_again(SIGSEGV, &info);
        _exit(96);
    }
    expect_exit(child, 7);
    return ok();
}
