// relive: link=pie,static threads=yes output=free
// Threads that write to code while others execute it, with nothing that orders them: the number that an instruction
// loads, a jump that is put in front of instructions and taken away again, and bytes in front of a call. What each
// thread has seen is printed, so that a replay has to show the same.
#include "check.h"
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

enum { PAGE = 4096, THREADS = 3, ROUNDS = 3000, BETWEEN = 40 };
static unsigned char *code;
static unsigned long seen[THREADS];

// mov $number, %eax; ret. The number lies in one word that is stored at once.
enum { LOAD = 3, NUMBER = LOAD + 1 };
// A jmp over the next two instructions, or a nop; mov $1, %eax; ret; mov %edi, %eax; ret.
enum { PATCHED = 128 };
static const unsigned short JUMP = 0x06eb, NOP = 0x9066;
// mov $number, %edx; rdtsc; mov $39, %eax (getpid); syscall; ret: these are no plain instructions for a translator.
enum { CALLS = 192, BEFORE_CALLS = CALLS + 1 };

static unsigned call(unsigned at) {
    return ((unsigned (*)(unsigned))(code + at))(7);
}

static void *work(void *number) {
    long own = (long)number;
    unsigned long all = 0;
    for (int i = 0; i < ROUNDS; i++) {
        all = all * 31 + call(LOAD);
        all = all * 31 + call(PATCHED);
        all += call(CALLS) == (unsigned)getpid();
        if (i % BETWEEN == own) {
            __atomic_store_n((uint32_t *)(code + NUMBER), (uint32_t)(own * 100000 + i), __ATOMIC_RELAXED);
            __atomic_store_n((uint16_t *)(code + PATCHED), i / BETWEEN % 2 ? JUMP : NOP, __ATOMIC_RELAXED);
            memcpy(code + BEFORE_CALLS, &i, sizeof i);
        }
    }
    seen[own] = all;
    return NULL;
}

int main(void) {
    code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    const unsigned char load[] = {0xb8, 0, 0, 0, 0, 0xc3};
    memcpy(code + LOAD, load, sizeof load);
    const unsigned char patched[] = {0x66, 0x90, 0xb8, 1, 0, 0, 0, 0xc3, 0x89, 0xf8, 0xc3};
    memcpy(code + PATCHED, patched, sizeof patched);
    const unsigned char calls[] = {0xba, 0, 0, 0, 0, 0x0f, 0x31, 0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3};
    memcpy(code + CALLS, calls, sizeof calls);
    CHECK(call(LOAD) == 0 && call(PATCHED) == 1 && call(CALLS) == (unsigned)getpid());
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, work, (void *)i));
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
    for (int i = 0; i < THREADS; i++) printf("%lx\n", seen[i]);
    return ok();
}
