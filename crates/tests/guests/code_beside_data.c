// relive: link=pie threads=yes sketch=yes
// Threads that run code and write data on the same page, each its own.
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

enum { PAGE = 4096, THREADS = 4, ROUNDS = 300 };
static unsigned char *page;

static void *work(void *number) {
    long own = (long)number;
    unsigned char *code = page + own * 64;
    volatile long *data = (volatile long *)(page + 2048 + own * 64);
    for (long i = 0; i < ROUNDS; i++) {
        *data = i;
        CHECK(((long (*)(void))code)() == own);
        // A new constant, for the thread itself.
        code[1] = (unsigned char)(own + i % 2);
        CHECK(((long (*)(void))code)() == own + i % 2 && *data == i);
        code[1] = (unsigned char)own;
    }
    return NULL;
}

int main(void) {
    page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    for (int i = 0; i < THREADS; i++) {
        const unsigned char load[] = {0xb8, (unsigned char)i, 0, 0, 0, 0xc3}; // mov $i, %eax; ret
        memcpy(page + i * 64, load, sizeof load);
    }
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, work, (void *)i));
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
    return ok();
}
