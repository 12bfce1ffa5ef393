// relive: threads=yes sketch=yes timeout=90
// Code far up in the address space, as just-in-time compilers place it: called by several
// threads under a timer's signals, with a flag carried over indirect calls and returns, and
// replaced while no thread runs it.
#include "check.h"
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

enum { THREADS = 3, ROUNDS = 40, PAGE = 4096 };
typedef long (*function)(long count, long *calls);

static unsigned char *code;
static pthread_barrier_t barrier;
static volatile sig_atomic_t alarms;

static void on_alarm(int number) {
    (void)number;
    alarms++;
}

// Counts to its first argument by a carry that a call and a return through registers keep.
static void put(unsigned char *to, const unsigned char *step, int version) {
    static const unsigned char head[] = {0x31, 0xc0, 0x48, 0x89, 0xf9, 0x49, 0xb8};
    static const unsigned char loop[] = {
        0xf9,                   // stc
        0x41, 0xff, 0xd0,       // call *r8
        0x48, 0x83, 0xd0, 0x00, // adc $0, rax
        0x48, 0xff, 0xc9,       // dec rcx
        0x75, 0xf3,             // jnz
        0xc3,
    };
    memcpy(to, head, sizeof head);
    memcpy(to + sizeof head, &step, 8);
    memcpy(to + sizeof head + 8, loop, sizeof loop);
    // lea version(%rdx), %rdx; mov %rdx, (%rsi); ret
    unsigned char callee[] = {0x48, 0x8d, 0x52, (unsigned char)version, 0x48, 0x89, 0x16, 0xc3};
    memcpy((unsigned char *)step, callee, sizeof callee);
}

static void replace(int version) {
    unsigned char *same = mmap(code, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK(same == code);
    put(code, code + 2 * PAGE + 0x16f, version);
    CHECK(mprotect(code, 4 * PAGE, PROT_READ | PROT_EXEC) == 0);
}

static long call(long count, long *calls) {
    // rdx is where the callee counts.
    long result, rdx = 0, rcx;
    function f = (function)(void *)code;
    __asm__ volatile("call *%5" : "=a"(result), "+d"(rdx), "=c"(rcx), "+D"(count), "+S"(calls) : "r"(f) : "r8", "cc", "memory");
    return result;
}

static void *runner(void *arg) {
    long self = (long)arg;
    for (int round = 0; round < ROUNDS; round++) {
        int version = 1 + round % 5;
        if (self == 0) replace(version);
        pthread_barrier_wait(&barrier);
        long calls = 0, count = 500 + self;
        CHECK(call(count, &calls) == count);
        CHECK(calls == count * version);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

int main(void) {
    code = mmap((void *)0x2f0000000000, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    CHECK0(pthread_barrier_init(&barrier, NULL, THREADS));
    signal(SIGALRM, on_alarm);
    struct itimerval every = {{0, 500}, {0, 500}}, off = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, runner, (void *)i));
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
    CHECK(setitimer(ITIMER_REAL, &off, NULL) == 0);
    return ok();
}
