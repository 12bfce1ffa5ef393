// relive: link=pie threads=yes sketch=yes parallel=refused
// Threads that change their own code all the time while the process begins to share memory with another:
// in a sketch each of them may be made to wait for its first turn where a write to code was taken care of.
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { PAGE = 4096, THREADS = 6, ROUNDS = 200, BEFORE = 60 };
static unsigned char *pages;
static int rounds[THREADS];

static void *work(void *number) {
    long own = (long)number;
    unsigned char *code = pages + own * PAGE;
    for (int i = 0; i < ROUNDS; i++) {
        // Each store is to a page that was executed since the last.
        code[1] = (unsigned char)i;
        code[2] = (unsigned char)own;
        CHECK(((int (*)(void))code)() == (int)(own * 256 + i));
        __atomic_fetch_add(&rounds[own], 1, __ATOMIC_SEQ_CST);
    }
    return NULL;
}

int main(void) {
    pages = mmap(NULL, THREADS * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED && shared != MAP_FAILED);
    for (int i = 0; i < THREADS; i++) {
        const unsigned char load[] = {0xb8, 0, 0, 0, 0, 0xc3}; // mov $0, %eax; ret
        memcpy(pages + i * PAGE, load, sizeof load);
    }
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, work, (void *)i));
    while (__atomic_fetch_add(&rounds[0], 0, __ATOMIC_SEQ_CST) < BEFORE) sched_yield();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        *shared = 1;
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0 && *shared == 1);
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
    return ok();
}
