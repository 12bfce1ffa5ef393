// relive: threads=yes link=pie,static
//
// Calls and returns on stacks everywhere: in static memory, on the heap, in maps whose pages are
// exchanged, and in one of 5 GiB, which comes while functions that have yet to return are deep.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "check.h"

enum { STACK = 64 << 10 };

static char static_stack[STACK] __attribute__((aligned(16)));
static void *high;

static int __attribute__((noinline)) sum(int n, void (*at_the_bottom)(void)) {
    if (n == 0) {
        if (at_the_bottom) at_the_bottom();
        return 0;
    }
    return n + sum(n - 1, at_the_bottom);
}

static void get_much(void) {
    high = mmap(0, 5l << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(high != MAP_FAILED);
    CHECK(mprotect((char *)high + (5l << 30) - STACK, STACK, PROT_READ | PROT_WRITE) == 0);
}

static ucontext_t back, there;
static int result;

static void on_other_stack(void) {
    result = 0;
    for (int i = 1; i <= 20; i++) {
        result += sum(i, 0);
        if (i % 7 == 0) CHECK(swapcontext(&there, &back) == 0);
    }
}

static void use(void *stack, int switches) {
    CHECK(getcontext(&there) == 0);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = STACK;
    there.uc_link = &back;
    makecontext(&there, on_other_stack, 0);
    for (int i = 0; i <= switches; i++) CHECK(swapcontext(&back, &there) == 0);
    CHECK(result == 1540);
}

static volatile int caught;

static void handler(int sig) {
    (void)sig;
    caught += sum(10, 0);
}

static void *thread(void *arg) {
    long n = 0;
    for (int i = 0; i < 200; i++) n += sum((int)(intptr_t)arg + i % 5, 0);
    return (void *)n;
}

static void with_threads(void) {
    pthread_attr_t attr;
    pthread_t threads[4];
    char *stacks = malloc(5 * STACK);
    CHECK(pthread_attr_init(&attr) == 0);
    for (int i = 0; i < 4; i++) {
        char *stack = (char *)(((uintptr_t)stacks + 4095) & ~4095ul) + i * STACK;
        CHECK(pthread_attr_setstack(&attr, stack, STACK) == 0);
        CHECK(pthread_create(&threads[i], &attr, thread, (void *)(intptr_t)(30 + i)) == 0);
    }
    for (int i = 0; i < 4; i++) {
        void *n;
        CHECK(pthread_join(threads[i], &n) == 0);
        long k = 30 + i, expected = 0;
        for (int j = 0; j < 200; j++) expected += (k + j % 5) * (k + j % 5 + 1) / 2;
        CHECK((long)n == expected);
    }
    free(stacks);
}

static void all_stacks(void) {
    use(static_stack, 2);
    void *heap = malloc(STACK);
    use(heap, 2);
    free(heap);
    char *map = mmap(0, 2 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED);
    use(map, 2);
    // The same addresses with other pages.
    CHECK(mmap(map, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == map);
    use(map, 2);
    CHECK(madvise(map, STACK, MADV_DONTNEED) == 0);
    use(map, 2);
    CHECK(munmap(map, 2 * STACK) == 0);

    stack_t alternate = {.ss_sp = static_stack, .ss_size = STACK}, old;
    CHECK(sigaltstack(&alternate, &old) == 0);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    CHECK(sigaction(SIGUSR1, &action, 0) == 0);
    int before = caught;
    for (int i = 0; i < 20; i++) CHECK(raise(SIGUSR1) == 0);
    CHECK(caught - before == 20 * 55);
    CHECK(sigaltstack(&old, 0) == 0);

    jmp_buf env;
    volatile int rounds = 0;
    if (setjmp(env) < 10) {
        CHECK(sum(100 + rounds, 0) == (100 + rounds) * (101 + rounds) / 2);
        longjmp(env, ++rounds);
    }
    CHECK(rounds == 10);
    with_threads();
}

int main(void) {
    all_stacks();
    CHECK(sum(500, get_much) == 500 * 501 / 2);
    all_stacks();
    use((char *)high + (5l << 30) - STACK, 2);
    CHECK(munmap(high, 5l << 30) == 0);
    all_stacks();
    return ok();
}
