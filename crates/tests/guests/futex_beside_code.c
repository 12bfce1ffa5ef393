// relive: link=pie
// Words of futexes on a page with code that has run, as those of threads whose stack can be executed: the
// calls without FUTEX_PRIVATE_FLAG find their word although the page is watched.
#include "check.h"
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static unsigned char *page;
static int *word, *other;

static void run_code(void) {
    static const unsigned char code[] = {0xb8, 7, 0, 0, 0, 0xc3}; // mov $7, %eax; ret
    if (page[5] != 0xc3) memcpy(page, code, sizeof code);
    CHECK(((int (*)(void))page)() == 7);
}

static long futex(int *at, int op, int value, void *fourth, int *second, int third) {
    run_code();
    return syscall(SYS_futex, at, op, value, fourth, second, third);
}

static void *waits(void *unused) {
    (void)unused;
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == 0) {
        long r = futex(word, FUTEX_WAIT, 0, NULL, NULL, 0);
        CHECK(r == 0 || errno == EAGAIN);
    }
    return NULL;
}

int main(void) {
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    word = (int *)(page + 2048), other = word + 1;
    *word = *other = 0;
    struct timespec soon = {0, 1000000};
    CHECK(futex(word, FUTEX_WAIT, 0, &soon, NULL, 0) == -1 && errno == ETIMEDOUT);
    CHECK(futex(word, FUTEX_WAIT, 1, NULL, NULL, 0) == -1 && errno == EAGAIN);
    CHECK(futex(word, FUTEX_WAKE, 1, NULL, NULL, 0) == 0);
    CHECK(futex(word, FUTEX_CMP_REQUEUE, 1, (void *)1, other, 0) == 0);
    CHECK(futex(word, FUTEX_WAKE_OP, 1, (void *)1, other, FUTEX_OP(FUTEX_OP_ADD, 5, FUTEX_OP_CMP_EQ, 9)) == 0);
    CHECK(*other == 5);
    struct futex_waitv list[2] = {{0, (unsigned long)word, FUTEX_32, 0}, {5, (unsigned long)other, FUTEX_32, 0}};
    struct timespec past = {1, 0};
    run_code();
    CHECK(syscall(SYS_futex_waitv, list, 2, 0, &past, CLOCK_MONOTONIC) == -1);
    CHECK(errno == ETIMEDOUT || errno == ENOSYS);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, waits, NULL) == 0);
    usleep(10000);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    CHECK(futex(word, FUTEX_WAKE, 1, NULL, NULL, 0) >= 0);
    CHECK(pthread_join(thread, NULL) == 0);
    puts("ok");
}
