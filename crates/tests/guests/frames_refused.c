// relive: link=pie,static flags="-pthread" timeout=60
// Handlers whose frame has no place: the stack pointer leads nowhere, the alternate stack is used
// up, missing or no memory. The kernel raises SIGSEGV instead, with its handler if that can have a
// frame, and ends the process otherwise.
#include "fault.h"
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static char alternate[1 << 16] __attribute__((aligned(64)));
static uint64_t wanted_sp;
static volatile int first_ran;

// With this stack pointer: sends the thread this signal, or reads a bad address for 0. Returns
// only where a handler ran, or none.
__attribute__((noinline)) static void signal_at(uint64_t sp, int sig) {
    long pid = getpid(), tid = gettid();
    __asm__ volatile("mov %%rsp, %%rbx\n\t"
                     "mov %[sp], %%rsp\n\t"
                     "test %%edx, %%edx\n\t"
                     "jz 1f\n\t"
                     "syscall\n\t"
                     "jmp 2f\n"
                     "1: mov 0x123458, %%eax\n"
                     "2: mov %%rbx, %%rsp"
                     :
                     : [sp] "r"(sp), "a"((long)SYS_tgkill), "D"(pid), "S"(tid), "d"((long)sig)
                     : "rbx", "rcx", "r11", "memory");
}

static void first(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    first_ran = 1;
}

// On the alternate stack.
static void forced(int number, siginfo_t *info, void *context) {
    CHECK(number == SIGSEGV && info->si_code == SI_KERNEL && info->si_addr == NULL);
    CHECK((uint64_t)REG(context, RSP) == wanted_sp && !first_ran);
    struct sigaction now;
    CHECK(sigaction(SIGUSR1, NULL, &now) == 0);
    CHECK((now.sa_handler == SIG_DFL) == ((now.sa_flags & (int)SA_RESETHAND) != 0));
    // The first handler's mask was not set.
    CHECK(!sigismember(&((ucontext_t *)context)->uc_sigmask, SIGUSR1));
    CHECK(!sigismember(&((ucontext_t *)context)->uc_sigmask, SIGSEGV));
    _exit(7);
}

static void never(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    _exit(98);
}

static void expect_killed(pid_t child, int wanted) {
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == wanted);
}

static void use_alternate(void *at, size_t size) {
    stack_t stack = {.ss_sp = at, .ss_size = size};
    CHECK(sigaltstack(&stack, NULL) == 0);
}

static void block(int number) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
}

// The setup for SIGSEGV.
enum how { NOTHING, PLAIN, ON_ALTERNATE, BLOCKED, IGNORED, HOWS };

static void set_up(enum how how) {
    switch (how) {
    case PLAIN: handle(SIGSEGV, never, 0); break;
    case BLOCKED: block(SIGSEGV); // fall through
    case ON_ALTERNATE:
        use_alternate(alternate, sizeof alternate);
        handle(SIGSEGV, forced, SA_ONSTACK);
        break;
    case IGNORED: CHECK(signal(SIGSEGV, SIG_IGN) != SIG_ERR); break;
    default: break;
    }
}

static char *readable, *closed, *top;

static void bad_stack_pointers(void) {
    uint64_t where[] = {
        0, 8, 100, 0x1000, (uint64_t)readable + 4096, (uint64_t)closed + 4096, (uint64_t)top + 200,
        0x40000800, 0x54001000, 0x60000000, 0x500000001000, 0x1234567800000000, 0x7ffffffff000,
        0xffffffff81000000, ~0ull, ~0ull - 7,
    };
    for (unsigned i = 0; i < sizeof where / sizeof *where; i++)
        for (enum how how = NOTHING; how < HOWS; how++) {
            int flags = i % 2 ? (int)SA_RESETHAND : 0;
            wanted_sp = where[i];
            pid_t child = fork();
            CHECK(child >= 0);
            if (!child) {
                handle(SIGUSR1, first, flags);
                set_up(how);
                signal_at(where[i], SIGUSR1);
                _exit(97);
            }
            if (how == ON_ALTERNATE) expect_exit(child, 7);
            else expect_killed(child, SIGSEGV);
        }
    // A fault whose own handler has no place.
    for (unsigned i = 0; i < sizeof where / sizeof *where; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) {
            handle(SIGSEGV, never, 0);
            signal_at(where[i], i % 2 ? SIGSEGV : 0);
            _exit(97);
        }
        expect_killed(child, SIGSEGV);
    }
}

// A handler that interrupts a call with a mask of its own: the mask to go back to is kept for the
// handler of SIGSEGV.
static void in_a_call_with_a_mask(void) {
    wanted_sp = 0x2000;
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        handle(SIGUSR1, first, 0);
        set_up(ON_ALTERNATE);
        block(SIGUSR2);
        block(SIGTERM);
        handle(SIGTERM, first, 0);
        raise(SIGTERM);
        // SIGUSR1 is blocked by the call only.
        sigset_t inside;
        sigfillset(&inside);
        sigdelset(&inside, SIGTERM);
        sigdelset(&inside, SIGSEGV);
        long got;
        __asm__ volatile("mov %%rsp, %%rbx\n\tmov $0x2000, %%rsp\n\tsyscall\n\tmov %%rbx, %%rsp"
                         : "=a"(got)
                         : "a"((long)SYS_rt_sigsuspend), "D"(&inside), "S"(8l)
                         : "rbx", "rcx", "r11", "memory");
        (void)got;
        _exit(97);
    }
    expect_exit(child, 7);
}

// No restorer: the kernel builds no frame.
static void without_restorer(void) {
    struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } raw = {
        (void *)first, SA_SIGINFO, NULL, 0};
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        CHECK(syscall(SYS_rt_sigaction, SIGUSR1, &raw, NULL, 8) == 0);
        raise(SIGUSR1);
        _exit(97);
    }
    expect_killed(child, SIGSEGV);
}

static volatile int depth;

static void again(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    depth++;
    raise(number);
    // It has no end.
    depth++;
}

static void overflowed(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    CHECK(info->si_code == SI_KERNEL && depth > 3 && depth < 100);
    _exit(7);
}

static void bad_alternates(void) {
    struct { void *at; size_t size; } where[] = {
        {(void *)0x1000, 1 << 16},   {readable, 4096 * 4}, {closed, 4096 * 4}, {alternate, 2048},
        {(void *)0x500000000000, 1 << 16}, {(void *)0xffffffff81000000, 1 << 16}, {(void *)-65536, 65536},
    };
    for (unsigned i = 0; i < sizeof where / sizeof *where; i++)
        for (int cause = 0; cause < 3; cause++) {
            if (where[i].size == 2048) {
                // Too small where frames are larger: with AVX-512, or a kernel that says so.
                stack_t stack = {.ss_sp = where[i].at, .ss_size = 2048};
                if (sigaltstack(&stack, NULL) != 0 || getauxval(AT_MINSIGSTKSZ) <= 2048) continue;
            }
            pid_t child = fork();
            CHECK(child >= 0);
            if (!child) {
                use_alternate(where[i].at, where[i].size);
                handle(SIGUSR1, never, SA_ONSTACK);
                if (cause != 1) handle(SIGSEGV, never, SA_ONSTACK);
                signal_at((uint64_t)top + 0x4000, cause == 2 ? 0 : SIGUSR1);
                _exit(97);
            }
            expect_killed(child, SIGSEGV);
        }
    // Handlers upon handlers, until the stack is used up.
    for (int plain = 0; plain < 2; plain++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) {
            use_alternate(alternate, 1 << 14);
            handle(SIGUSR1, again, SA_ONSTACK | SA_NODEFER);
            if (plain) handle(SIGSEGV, overflowed, 0);
            raise(SIGUSR1);
            _exit(97);
        }
        expect_killed(child, SIGSEGV);
    }
}

__attribute__((noinline, noclone)) static int overflow(int n) {
    volatile char frame[4096];
    frame[0] = (char)n;
    return n < 0 ? 0 : overflow(n + 1) + frame[0];
}

static void on_guard(int number, siginfo_t *info, void *context) {
    (void)context;
    CHECK(number == SIGSEGV && (info->si_code == SEGV_MAPERR || info->si_code == SEGV_ACCERR));
    _exit(7);
}

static void *overflows(void *with_alternate) {
    if (with_alternate) use_alternate(alternate, sizeof alternate);
    overflow(0);
    return NULL;
}

static void *volatile ran_at;

static void where(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ran_at = context;
}

// The stack pointer below the red zone counts: nearer to the end the stack is left, and
// entered at its other end.
static void near_the_end(void) {
    use_alternate(alternate, sizeof alternate);
    handle(SIGUSR1, where, SA_ONSTACK);
    signal_at((uint64_t)alternate + 64, SIGUSR1);
    CHECK((char *)ran_at > alternate + sizeof alternate - 8192);
    stack_t off = {.ss_flags = SS_DISABLE};
    CHECK(sigaltstack(&off, NULL) == 0);
}

static void overflown_stacks(void) {
    for (int in_thread = 0; in_thread < 2; in_thread++)
        for (int with_alternate = 0; with_alternate < 2; with_alternate++)
            for (int handled = 0; handled < 2; handled++) {
                pid_t child = fork();
                CHECK(child >= 0);
                if (!child) {
                    if (handled) handle(SIGSEGV, on_guard, SA_ONSTACK);
                    void *alternate = with_alternate ? "" : NULL;
                    pthread_t thread;
                    if (!in_thread) overflows(alternate);
                    CHECK0(pthread_create(&thread, NULL, overflows, alternate));
                    pthread_join(thread, NULL);
                    _exit(97);
                }
                if (with_alternate && handled) expect_exit(child, 7);
                else expect_killed(child, SIGSEGV);
            }
}

static void check_grown(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    char here;
    CHECK(&here < top && (char *)REG(context, RSP) > top);
    first_ran = 1;
}

// A frame below the start of a stack that grows makes it grow.
static void growing(void) {
    char *room = mmap(NULL, 8 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(room != MAP_FAILED && munmap(room, 8 << 20) == 0);
    top = mmap(room + (6 << 20), 4096, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
    CHECK(top == room + (6 << 20));
    first_ran = 0;
    handle(SIGUSR1, check_grown, 0);
    signal_at((uint64_t)top + 128, SIGUSR1);
    CHECK(first_ran);
}

int main(void) {
    struct rlimit none = {0, 0}, small = {1 << 20, 8 << 20};
    CHECK(setrlimit(RLIMIT_CORE, &none) == 0 && setrlimit(RLIMIT_STACK, &small) == 0);
    readable = mmap(NULL, 4 * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    closed = mmap(NULL, 4 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *room = mmap(NULL, 16 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(readable != MAP_FAILED && closed != MAP_FAILED && room != MAP_FAILED);
    // A writable page with nothing below it.
    top = room + 8 * 4096;
    CHECK(munmap(room, 8 * 4096) == 0);
    bad_stack_pointers();
    in_a_call_with_a_mask();
    without_restorer();
    bad_alternates();
    near_the_end();
    overflown_stacks();
    growing();
    return ok();
}
