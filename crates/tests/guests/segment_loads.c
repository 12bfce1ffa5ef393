// relive: threads=yes sketch=yes parallel=refused flags=-pthread
// Loads of segment registers with the selectors that a program may use and with others, the limits
// of segments, and a processor's number in one of them; registers are each thread's own.
#include "check.h"
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <ucontext.h>

static sigjmp_buf back;
static volatile int number, code;
static volatile long error;

static void on_signal(int sig, siginfo_t *info, void *context) {
    number = sig;
    code = info->si_code;
    error = ((ucontext_t *)context)->uc_mcontext.gregs[REG_ERR];
    siglongjmp(back, 1);
}

#define READ(segment) \
    ({ unsigned value; __asm__ volatile("mov %%" segment ", %0" : "=r"(value)); value; })
#define LOAD(segment, value) __asm__ volatile("mov %0, %%" segment : : "r"((unsigned)(value)) : "memory")
#define FAULTS(statement, wanted)                        \
    do {                                                 \
        number = 0;                                      \
        if (sigsetjmp(back, 1) == 0) { statement; }      \
        CHECK(number == SIGSEGV && code == SI_KERNEL && error == (wanted)); \
    } while (0)

static int limit(unsigned selector, unsigned *value) {
    unsigned char there;
    __asm__ volatile("lsl %2, %0; setz %1" : "+r"(*value), "=q"(there) : "r"(selector) : "cc");
    return there;
}

static void limits(void) {
    unsigned value = 7;
    CHECK(limit(0x33, &value) && value == 0xffffffff);
    CHECK(limit(0x28, &value) && value == 0xffffffff);
    value = 7;
    CHECK(!limit(0, &value) && !limit(3, &value) && !limit(0x10, &value) && !limit(0xffff, &value));
    CHECK(value == 7);
    uint64_t wide = -1;
    __asm__("lsl %1, %0" : "+r"(wide) : "r"((uint64_t)0x33) : "cc");
    CHECK(wide == 0xffffffff);
    __asm__("lsl %w1, %w0" : "+r"(wide) : "r"((uint64_t)0) : "cc");
    CHECK(wide == 0xffffffff);
    wide = 0;
    __asm__("lsl %w1, %w0" : "+r"(wide) : "r"((uint64_t)0x33) : "cc");
    CHECK(wide == 0xffff);
    // Processor and node, which replays must show as they were.
    CHECK(limit(0x7b, &value));
    printf("%s\n", (value & 0xfff) < 4096 ? "a processor" : "none");
    fprintf(stderr, "%u\n", value);
}

static sem_t first, second;

static void *other(void *unused) {
    (void)unused;
    // A thread begins with its creator's.
    CHECK(READ("ds") == 0x2b && READ("es") == 0x23);
    LOAD("ds", 0x33);
    CHECK(sem_post(&first) == 0);
    while (sem_wait(&second) != 0) {
    }
    CHECK(READ("ds") == 0x33 && READ("es") == 0x23);
    return NULL;
}

static void *stay(void *unused) {
    (void)unused;
    CHECK(READ("ds") == 0);
    while (sem_wait(&second) != 0) {
    }
    CHECK(READ("ds") == 0 && READ("es") == 0);
    return NULL;
}

int main(void) {
    handle(SIGSEGV, on_signal, 0);
    CHECK(sem_init(&first, 0, 0) == 0 && sem_init(&second, 0, 0) == 0);
    CHECK(READ("cs") == 0x33 && READ("ss") == 0x2b && READ("ds") == 0 && READ("es") == 0);
    limits();
    pthread_t threads[2];
    CHECK0(pthread_create(&threads[0], NULL, stay, NULL));
    LOAD("ds", 0x2b);
    LOAD("es", 0x23);
    LOAD("ss", 0x2b);
    CHECK(READ("ds") == 0x2b && READ("es") == 0x23 && READ("ss") == 0x2b);
    CHECK0(pthread_create(&threads[1], NULL, other, NULL));
    while (sem_wait(&first) != 0) {
    }
    CHECK(READ("ds") == 0x2b && READ("es") == 0x23);
    CHECK(sem_post(&second) == 0 && sem_post(&second) == 0);
    for (int i = 0; i < 2; i++) CHECK0(pthread_join(threads[i], NULL));
    CHECK(READ("ds") == 0x2b && READ("es") == 0x23);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(READ("ds") != 0x2b || READ("es") != 0x23);
    expect_exit(child, 0);
    FAULTS(LOAD("ds", 0x1234), 0x1234);
    FAULTS(LOAD("es", 0x10), 0x10);
    FAULTS(LOAD("ss", 0), 0);
    FAULTS(LOAD("ss", 0x33), 0x30);
    FAULTS(LOAD("fs", 0x1234), 0x1234);
    FAULTS(LOAD("gs", 0x13), 0x10);
    CHECK(READ("ds") == 0x2b && READ("es") == 0x23);
    LOAD("ds", 0);
    LOAD("es", READ("ds"));
    CHECK(READ("ds") == 0 && READ("es") == 0);
    LOAD("gs", 0);
    CHECK(READ("gs") == 0);
    LOAD("gs", 3);
    LOAD("ds", 3);
    uint16_t word = 0x2b;
    __asm__ volatile("mov %0, %%es" : : "m"(word));
    CHECK(READ("es") == 0x2b);
    return ok();
}
