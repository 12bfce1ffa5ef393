// relive: link=pie,static flags="-pthread" threads=yes sketch=yes parallel=refused
// The fault in a signal frame (REG_TRAPNO, REG_ERR, REG_CR2) is the thread's last one, for any
// signal: also for one that was sent, in new threads and processes, after exec.
#include "fault.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

struct trap { long number, error, address; };

static __thread volatile struct trap seen;
static __thread volatile long skip;

static void look(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    seen = (struct trap){REG(context, TRAPNO), REG(context, ERR), REG(context, CR2)};
    REG(context, RIP) += skip;
    skip = 0;
}

static int shows(long number, long error, long address) {
    seen = (struct trap){-1, -1, -1};
    raise(SIGUSR1);
    return seen.number == number && seen.error == error && seen.address == address;
}

static void reads(long at) {
    skip = 2;
    __asm__ volatile("movb (%0), %%al" : : "r"(at) : "rax", "memory");
}

static void writes(long at) {
    skip = 3;
    __asm__ volatile("movb $1, (%0)" : : "a"(at) : "memory");
}

static void undefined(void) {
    skip = 2;
    __asm__ volatile("ud2");
}

static void *in_a_thread(void *unused) {
    CHECK(shows(6, 0, 0x123458));
    reads(0x23456);
    CHECK(shows(14, 4, 0x23456));
    return unused;
}

// Whether the page was there: also where only the kernel has looked at it.
static void pages(void) {
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    char *page = mmap(NULL, 3 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && page[0] == 0 && write(pipes[1], page + 4096, 100) == 100);
    writes((long)page);
    CHECK(shows(14, 7, (long)page));
    writes((long)page + 4096);
    CHECK(shows(14, 7, (long)page + 4096));
    CHECK(mprotect(page, 4096, PROT_NONE) == 0);
    reads((long)page);
    CHECK(shows(14, 4, (long)page));
    writes((long)page);
    CHECK(shows(14, 6, (long)page));
    CHECK(munmap(page, 3 * 4096) == 0);
    writes((long)page);
    CHECK(shows(14, 6, (long)page));
    close(pipes[0]), close(pipes[1]);
}

static char alternate[1 << 16];

static void forced(int number, siginfo_t *info, void *context) {
    look(number, info, context);
    _exit(seen.number == 6 && seen.error == 0 && seen.address == 0x123458 ? 7 : 8);
}

// The kernel raises SIGSEGV here, and no fault does.
static void frame_without_place(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
        CHECK(sigaltstack(&stack, NULL) == 0);
        handle(SIGSEGV, forced, SA_ONSTACK);
        __asm__ volatile("xor %%esp, %%esp\n\tsyscall\n\tud2"
                         :
                         : "a"((long)SYS_tgkill), "D"((long)getpid()), "S"((long)gettid()), "d"((long)SIGUSR1)
                         : "memory");
    }
    expect_exit(child, 7);
}

static long cs_of_return, pc_of_return, number_wanted, error_wanted;

static void leads_astray(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    if (cs_of_return) REG(context, CSGSFS) = cs_of_return | 0x2bl << 48;
    if (pc_of_return) REG(context, RIP) = pc_of_return;
}

static void astray(int number, siginfo_t *info, void *context) {
    look(number, info, context);
    CHECK(info->si_code == SI_KERNEL);
    _exit(seen.number == number_wanted && seen.error == error_wanted && seen.address == 0x123458 ? 7 : 8);
}

// There the processor raises one, in the kernel.
static void bad_returns(void) {
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) {
            cs_of_return = i == 0 ? 0x7b : 0;
            pc_of_return = i == 1 ? 0x1234567800000000 : 0;
            number_wanted = 13, error_wanted = i == 0 ? 0x78 : 0;
            handle(SIGSEGV, astray, 0);
            handle(SIGUSR2, leads_astray, 0);
            raise(SIGUSR2);
            _exit(9);
        }
        expect_exit(child, 7);
    }
}

int main(int count, char **args) {
    handle(SIGUSR1, look, 0);
    if (count == 2) {
        CHECK(strcmp(args[1], "again") == 0 && shows(6, 0, 0x123458));
        return ok();
    }
    for (int i = 0; i < 4; i++) {
        static const int all[] = {SIGSEGV, SIGILL, SIGTRAP, SIGFPE};
        handle(all[i], look, 0);
    }
    pages();
    reads(0x654321);
    CHECK(seen.number == 14 && seen.error == 4 && seen.address == 0x654321);
    CHECK(shows(14, 4, 0x654321));
    writes(0x123458);
    CHECK(shows(14, 6, 0x123458));
    // The address is of the last page fault.
    skip = 1;
    __asm__ volatile("hlt");
    CHECK(seen.number == 13 && seen.error == 0 && seen.address == 0x123458 && shows(13, 0, 0x123458));
    __asm__ volatile("int3");
    CHECK(seen.number == 3 && shows(3, 0, 0x123458));
    skip = 2;
    __asm__ volatile("idivl %%ecx" : : "c"(0), "a"(1), "d"(0));
    CHECK(seen.number == 0 && shows(0, 0, 0x123458));
    undefined();
    CHECK(seen.number == 6 && shows(6, 0, 0x123458));
    // Faults without a signal do not count: bad addresses in calls, code that changes itself.
    int zero = open("/dev/zero", O_RDONLY);
    CHECK(read(zero, (void *)0x1000, 8) == -1 && errno == EFAULT);
    unsigned char code[] = {0xb8, 1, 0, 0, 0, 0xc3};
    unsigned char *jit = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(jit != MAP_FAILED);
    for (int i = 1; i < 5; i++) {
        code[1] = (unsigned char)i;
        memcpy(jit, code, sizeof code);
        CHECK(((int (*)(void))jit)() == i);
    }
    CHECK(shows(6, 0, 0x123458));
    pthread_t thread;
    CHECK0(pthread_create(&thread, NULL, in_a_thread, NULL));
    CHECK0(pthread_join(thread, NULL));
    CHECK(shows(6, 0, 0x123458));
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        CHECK(shows(6, 0, 0x123458));
        reads(0x5000);
        _exit(shows(14, 4, 0x5000) ? 5 : 6);
    }
    expect_exit(child, 5);
    CHECK(shows(6, 0, 0x123458));
    frame_without_place();
    bad_returns();
    fflush(stdout);
    execl("/proc/self/exe", "last_fault", "again", NULL);
    return 1;
}
