// relive: threads=yes timeout=120
// Threads rewrite code that they run, on pages that they share with one another and with data that
// the kernel writes.
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <linux/futex.h>

enum { THREADS = 3, ROUNDS = 60, PAGE = 4096, PART = 1024 };
static unsigned char *page;
static int file;

static void *storm(void *arg) {
    long me = (long)arg;
    unsigned char *code = page + me * PART, *bytes = code + 512;
    unsigned *word = (unsigned *)(code + 256);
    for (int i = 0; i < ROUNDS; i++) {
        int number = (int)me * 1000 + i;
        unsigned char load[] = {0xb8, 0, 0, 0, 0, 0xc3}; // mov $number, %eax; ret
        memcpy(load + 1, &number, 4);
        memcpy(code, load, sizeof load);
        CHECK(((int (*)(void))code)() == number);
        code[1] ^= 0x55;
        CHECK(((int (*)(void))code)() == (number ^ 0x55));
        // The kernel writes to the page too.
        memset(bytes, 0, 16);
        CHECK(pread(file, bytes, 8, 0) == 8 && memcmp(bytes, "contents", 8) == 0);
        struct iovec parts[2] = {{bytes, 3}, {bytes + 8, 5}};
        CHECK(preadv(file, parts, 2, 0) == 8 && memcmp(bytes + 8, "tents", 5) == 0);
        int both[2];
        CHECK(pipe(both) == 0 && write(both[1], "through", 7) == 7);
        CHECK(read(both[0], bytes, 7) == 7 && memcmp(bytes, "through", 7) == 0);
        CHECK(close(both[0]) == 0 && close(both[1]) == 0);
        *word = 5;
        // Adds 2 to the word.
        CHECK(syscall(SYS_futex, bytes, FUTEX_WAKE_OP, 1, 1, word, FUTEX_OP(FUTEX_OP_ADD, 2, FUTEX_OP_CMP_EQ, 0)) == 0);
        CHECK(*word == 7);
        struct timespec now = {-1, -1};
        memcpy(bytes, &now, sizeof now);
        CHECK(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, bytes) == 0);
        memcpy(&now, bytes, sizeof now);
        CHECK(now.tv_sec >= 0 && now.tv_nsec >= 0);
    }
    return NULL;
}

int main(void) {
    page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    file = open("contents", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && write(file, "contents", 8) == 8);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK0(pthread_create(&threads[i], NULL, storm, (void *)i));
    for (int i = 0; i < THREADS; i++) CHECK0(pthread_join(threads[i], NULL));
    CHECK(unlink("contents") == 0);
    return ok();
}
