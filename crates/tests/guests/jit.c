// relive: threads=yes sketch=yes parallel=refused timeout=90
// A tiny compiler to machine code: writable and executable by turns with mprotect, one file
// mapped twice (writable here, executable there), code placed high, and a second thread that
// runs the first one's code.
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

enum { SIZE = 65536 };
typedef long (*unary)(long);

// rax = rdi; then one step for each letter; ret.
static size_t compile(unsigned char *to, const char *program) {
    unsigned char *p = to;
    static const unsigned char start[] = {0x48, 0x89, 0xf8}, twice[] = {0x48, 0x01, 0xc0}, inc[] = {0x48, 0xff, 0xc0};
    static const unsigned char negate[] = {0x48, 0xf7, 0xd8}, square[] = {0x48, 0x0f, 0xaf, 0xc0};
    memcpy(p, start, 3), p += 3;
    for (; *program; program++) {
        const unsigned char *step = *program == 'd' ? twice : *program == 'i' ? inc : *program == 'n' ? negate : square;
        size_t n = *program == 's' ? 4 : 3;
        memcpy(p, step, n), p += n;
    }
    *p++ = 0xc3;
    return (size_t)(p - to);
}

static long interpret(const char *program, long x) {
    unsigned long v = (unsigned long)x;
    for (; *program; program++) v = *program == 'd' ? v + v : *program == 'i' ? v + 1 : *program == 'n' ? -v : v * v;
    return (long)v;
}

static const char *const programs[] = {"", "i", "d", "ddii", "nid", "ssi", "dididididi", "nsdi"};
static unsigned char *shared_write, *shared_run;
static atomic_int ready, taken;

static void *runner(void *arg) {
    (void)arg;
    for (int i = 0; i < 80; i++) {
        while (atomic_load(&ready) != i + 1) sched_yield();
        CHECK(((unary)shared_run)(i) == interpret(programs[i % 8], i));
        atomic_store(&taken, i + 1);
    }
    return NULL;
}

int main(void) {
    unsigned char *page = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    for (int round = 0; round < 100; round++) {
        const char *program = programs[round % 8];
        CHECK(mprotect(page, SIZE, PROT_READ | PROT_WRITE) == 0);
        compile(page, program);
        CHECK(mprotect(page, SIZE, PROT_READ | PROT_EXEC) == 0);
        for (long x = -3; x < 4; x++) CHECK(((unary)page)(x) == interpret(program, x));
    }
    // High in the address space, wherever the kernel likes it near the hint.
    unsigned char *high = mmap((void *)0x300000000000, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(high != MAP_FAILED);
    size_t at = 0;
    for (int i = 0; i < 1000; i++) {
        size_t n = compile(high + at, programs[i % 8]);
        CHECK(((unary)(high + at))(i) == interpret(programs[i % 8], i));
        at += n;
    }
    // High code that calls low code and is called back: push rdi; mov $f, %rax; call *rax; pop; ret.
    unsigned char *p = high + at;
    static const unsigned char before[] = {0x57, 0x48, 0xb8}, after[] = {0xff, 0xd0, 0x5f, 0xc3};
    long (*low)(long) = labs;
    memcpy(p, before, 3), memcpy(p + 3, &low, 8), memcpy(p + 11, after, 4);
    for (long i = -50; i < 50; i++) CHECK(((unary)p)(i) == labs(i));

    int fd = memfd_create("code", 0);
    CHECK(fd >= 0 && ftruncate(fd, SIZE) == 0);
    shared_write = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    shared_run = mmap(NULL, SIZE, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
    CHECK(shared_write != MAP_FAILED && shared_run != MAP_FAILED);
    pthread_t thread;
    CHECK0(pthread_create(&thread, NULL, runner, NULL));
    for (int i = 0; i < 80; i++) {
        compile(shared_write, programs[i % 8]);
        atomic_store(&ready, i + 1);
        while (atomic_load(&taken) != i + 1) sched_yield();
    }
    CHECK0(pthread_join(thread, NULL));
    return ok();
}
