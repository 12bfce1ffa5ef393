// relive: link=pie,static needs=avx
// Returning from bad signal frames: the kernel raises SIGSEGV where it cannot read one, or where the
// processor would refuse its content; and the registers of an extended state that lacks parts.
#include "fault.h"
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static char alternate[1 << 16] __attribute__((aligned(64)));
static uint64_t closed;

// The words of the kernel in the FXSAVE area, and the header behind it.
struct software { uint32_t magic1, extended_size; uint64_t features; uint32_t size, rest[7]; };
struct header { uint64_t used, compacted, rest[6]; };

static char *area(ucontext_t *uc) { return (char *)uc->uc_mcontext.fpregs; }
static struct software *software(ucontext_t *uc) { return (void *)(area(uc) + 464); }
static struct header *header(ucontext_t *uc) { return (void *)(area(uc) + 512); }
static uint32_t *mxcsr(ucontext_t *uc) { return (void *)(area(uc) + 24); }
static void point(ucontext_t *uc, uint64_t at) { uc->uc_mcontext.fpregs = (void *)at; }

static void segments(ucontext_t *uc, uint64_t cs, uint64_t ss) {
    REG(uc, CSGSFS) = (long)(cs | ss << 48);
}

// The changes to a frame. The first ones are bad.
enum harm {
    AREA_CLOSED, AREA_HIGH, AREA_NOT_CANONICAL, AREA_MISALIGNED, AREA_AT_ONE, RESERVED_MXCSR,
    UNKNOWN_COMPONENT, COMPACTED, RESERVED_HEADER, RESERVED_MXCSR_OLD, MISALIGNED_OLD, NO_SUCH_CS,
    NO_SUCH_SS, PC_NOT_CANONICAL, BAD_HARMS,
    NO_AREA = BAD_HARMS, NO_MAGIC1, NO_MAGIC2, TOO_LARGE, TOO_SMALL, LEAST, WITHOUT_AVX, WITHOUT_SSE,
    NONE_USED, MXCSR_UNASKED, SIMPLY, HARMS
};

static enum harm harm;
static volatile int in_handler;

static void do_harm(ucontext_t *uc) {
    struct software *sw = software(uc);
    switch (harm) {
    case AREA_CLOSED: point(uc, closed); break;
    case AREA_HIGH: point(uc, 0xffffffff81000000); break;
    case AREA_NOT_CANONICAL: point(uc, 0x1234567800000000); break;
    case AREA_MISALIGNED: {
        // 16 bytes on, the whole of it.
        static char copy[8192] __attribute__((aligned(64)));
        memcpy(copy + 16, area(uc), sw->extended_size);
        point(uc, (uint64_t)copy + 16);
        break;
    }
    case AREA_AT_ONE: point(uc, 1); break;
    case RESERVED_MXCSR: *mxcsr(uc) |= 1u << 16; break;
    case UNKNOWN_COMPONENT: header(uc)->used |= 1ull << 40; break;
    // Without a component that is in use: no processor takes that.
    case COMPACTED: header(uc)->used |= 4, header(uc)->compacted = 1ull << 63 | 3; break;
    case RESERVED_HEADER: header(uc)->compacted = 1; break;
    case RESERVED_MXCSR_OLD: *mxcsr(uc) |= 1u << 20, sw->magic1 = 0; break;
    case MISALIGNED_OLD: {
        static char copy[1024] __attribute__((aligned(64)));
        memcpy(copy + 8, area(uc), 512);
        memset(copy + 8 + 464, 0, 48);
        point(uc, (uint64_t)copy + 8);
        break;
    }
    case NO_SUCH_CS: segments(uc, 0x7b, 0x2b); break;
    case NO_SUCH_SS: segments(uc, 0x33, 0x7b); break;
    case PC_NOT_CANONICAL: REG(uc, RIP) = 0x1234567800000000; break;
    case NO_AREA: point(uc, 0); break;
    case NO_MAGIC1: sw->magic1++; break;
    case NO_MAGIC2: *(uint32_t *)(area(uc) + sw->size) = 5; break;
    case TOO_LARGE: sw->size = 1 << 16; break;
    case TOO_SMALL: sw->size = 512; break;
    case LEAST: *(uint32_t *)(area(uc) + 576) = 0x46505845, sw->size = 576, sw->features = 3; break;
    case WITHOUT_AVX: sw->features &= ~4ull; break;
    case WITHOUT_SSE: sw->features &= ~2ull; break;
    case NONE_USED: header(uc)->used = 0; break;
    // Not even looked at.
    case MXCSR_UNASKED: *mxcsr(uc) |= 1u << 16, sw->features &= ~6ull; break;
    default: break;
    }
}

static void harmful(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    in_handler++;
    // It is blocked when a frame is returned from, bad or not.
    sigaddset(&((ucontext_t *)context)->uc_sigmask, SIGUSR2);
    do_harm(context);
}

static long restored_sp;

static void forced(int number, siginfo_t *info, void *context) {
    CHECK(number == SIGSEGV && info->si_code == SI_KERNEL && info->si_addr == NULL);
    CHECK(sigismember(&((ucontext_t *)context)->uc_sigmask, SIGUSR2));
    CHECK(in_handler == 1 && REG(context, RSP) == restored_sp && REG(context, RBX) == 0x1234);
    CHECK(REG(context, RAX) == 0);
    _exit(7);
}

static void forced_early(int number, siginfo_t *info, void *context) {
    CHECK(number == SIGSEGV && info->si_code == SI_KERNEL && info->si_addr == NULL);
    CHECK(REG(context, RAX) == 0 && REG(context, RBX) == 0x4321 && REG(context, RSP) == restored_sp);
    CHECK(REG(context, RCX) == REG(context, RIP) && memcmp((char *)REG(context, RIP), "\x0f\x0b", 2) == 0);
    CHECK(!sigismember(&((ucontext_t *)context)->uc_sigmask, SIGUSR2));
    _exit(7);
}

static void on_alternate(int number, void (*handler)(int, siginfo_t *, void *)) {
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    CHECK(sigaltstack(&stack, NULL) == 0);
    handle(number, handler, SA_ONSTACK);
}

typedef float eight[8] __attribute__((vector_size(32)));

// Sends SIGUSR1 with known registers, and stores those that it finds afterwards.
__attribute__((noinline, target("avx"))) static void round_trip(float *ymm, uint32_t *control) {
    static float known[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const uint32_t set = 0x1f80 | 0x8000;
    static const uint32_t usual = 0x1f80;
    long result = SYS_tgkill;
    __asm__ volatile("vmovups %[known], %%ymm3\n\t"
                     "ldmxcsr %[set]\n\t"
                     "mov $0x1234, %%ebx\n\t"
                     "mov %%rsp, %[sp]\n\t"
                     "syscall\n\t"
                     "vmovups %%ymm3, (%[out])\n\t"
                     "stmxcsr %[control]\n\t"
                     "ldmxcsr %[usual]\n\t"
                     "vzeroupper"
                     : "+a"(result), [sp] "=m"(restored_sp), [control] "=m"(*control)
                     : [known] "m"(known), [set] "m"(set), [usual] "m"(usual), [out] "r"(ymm),
                       "D"((long)getpid()), "S"((long)gettid()), "d"((long)SIGUSR1)
                     : "rbx", "rcx", "r11", "memory", "xmm3");
    CHECK(result == 0);
}

static int is(const float *ymm, int low, int high) {
    for (int i = 0; i < 8; i++)
        if (ymm[i] != ((i < 4 ? low : high) ? (float)(i + 1) : 0)) return 0;
    return 1;
}

static void bad_ones(void) {
    for (harm = 0; harm < BAD_HARMS; harm++)
        for (int handled = 0; handled < 2; handled++) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (!child) {
                float ymm[8];
                uint32_t control;
                handle(SIGUSR1, harmful, 0);
                if (handled) on_alternate(SIGSEGV, forced);
                round_trip(ymm, &control);
                _exit(97);
            }
            int status;
            if (handled) {
                expect_exit(child, 7);
            } else {
                CHECK(waitpid(child, &status, 0) == child);
                CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
            }
        }
}

static void good_ones(void) {
    handle(SIGUSR1, harmful, 0);
    for (harm = BAD_HARMS; harm < HARMS; harm++) {
        float ymm[8];
        uint32_t control = 0;
        round_trip(ymm, &control);
        const uint32_t set = 0x9f80, initial = 0x1f80;
        switch (harm) {
        case NO_AREA: CHECK(is(ymm, 0, 0) && control == initial); break;
        case NO_MAGIC1:
        case NO_MAGIC2:
        case TOO_LARGE:
        case TOO_SMALL:
        case LEAST:
        // The new MXCSR depends on whether the processor has XRSTORS.
        case WITHOUT_AVX: CHECK(is(ymm, 1, 0)); break;
        case WITHOUT_SSE: CHECK(is(ymm, 0, 1) && control == initial); break;
        case NONE_USED: CHECK(is(ymm, 0, 0) && control == set); break;
        case MXCSR_UNASKED: CHECK(is(ymm, 0, 0) && control == initial); break;
        default: CHECK(is(ymm, 1, 1) && control == set); break;
        }
    }
}

// rt_sigreturn with a stack pointer that leads to no frame.
static void no_frames(void) {
    uint64_t where[] = {0, 8, 0x1000, closed, closed + 4096 - 200, 0x500000001000, 0x54001000,
                        0x1234567800000000, 0xffffffff81000000, ~0ull, ~0ull - 7, ~0ull - 299};
    for (unsigned i = 0; i < sizeof where / sizeof *where; i++)
        for (int handled = 0; handled < 2; handled++) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (!child) {
                restored_sp = (long)where[i];
                if (handled) on_alternate(SIGSEGV, forced_early);
                __asm__ volatile("mov $0x4321, %%ebx\n\tmov %0, %%rsp\n\tmov $15, %%eax\n\tsyscall\n\tud2"
                                 :
                                 : "r"(where[i])
                                 : "rbx", "rax", "memory");
                _exit(97);
            }
            int status;
            if (handled) {
                expect_exit(child, 7);
            } else {
                CHECK(waitpid(child, &status, 0) == child);
                CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
            }
        }
}

static char *edge;

static void from_the_edge(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    in_handler++;
    memcpy(edge, context, 304);
    __asm__ volatile("mov %0, %%rsp\n\tmov $15, %%eax\n\tsyscall\n\tud2" : : "r"(edge) : "memory");
}

// A frame at the start of a map, with nothing before it.
static void moved_frame(void) {
    handle(SIGUSR1, from_the_edge, 0);
    in_handler = 0;
    for (int i = 1; i <= 3; i++) {
        raise(SIGUSR1);
        CHECK(in_handler == i);
    }
}

// The alternate stack in a frame becomes the thread's, if sigaltstack would take it.
static stack_t put;

static void puts_stack(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    ((ucontext_t *)context)->uc_stack = put;
}

static void stacks(void) {
    static char other[8192];
    handle(SIGUSR1, puts_stack, 0);
    stack_t had = {.ss_sp = alternate, .ss_size = sizeof alternate}, now;
    CHECK(sigaltstack(&had, NULL) == 0);
    put = (stack_t){.ss_sp = other, .ss_size = sizeof other};
    raise(SIGUSR1);
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == other && now.ss_size == sizeof other);
    put = (stack_t){.ss_sp = alternate, .ss_size = 16};
    raise(SIGUSR1);
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == other);
    put = (stack_t){.ss_sp = alternate, .ss_size = sizeof alternate, .ss_flags = 77};
    raise(SIGUSR1);
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == other);
    put = (stack_t){.ss_flags = SS_DISABLE};
    raise(SIGUSR1);
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_flags == SS_DISABLE);
}

int main(void) {
    struct rlimit none = {0, 0};
    CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
    char *map = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED && mprotect(map + 4096, 4096, PROT_NONE) == 0);
    closed = (uint64_t)map + 4096;
    bad_ones();
    no_frames();
    good_ones();
    // The closed pages are unmapped: the last page has nothing before it.
    CHECK(munmap((char *)closed, 4096) == 0);
    edge = (char *)closed + 4096;
    moved_frame();
    stacks();
    return ok();
}
