// relive: threads=yes sketch=yes timeout=60
// Threads hand buffers to each other, and fill and copy them by repeated string instructions of all lengths, forwards and
// backwards; some run into a page that a handler opens.
#include <pthread.h>
#include <sys/mman.h>

#include "check.h"

enum { THREADS = 3, BUFFERS = 4, SIZE = 5 * 4096, ROUNDS = 400 };

static struct {
    pthread_mutex_t lock;
    unsigned char fill;
    unsigned char bytes[SIZE] __attribute__((aligned(64)));
} buffers[BUFFERS];

static volatile unsigned opened;

static void open_page(int sig, siginfo_t *info, void *context) {
    (void)sig, (void)context;
    unsigned char *page = (unsigned char *)((uintptr_t)info->si_addr & ~4095ul);
    if (mprotect(page, 4096, PROT_READ | PROT_WRITE)) _exit(3);
    __atomic_fetch_add(&opened, 1, __ATOMIC_RELAXED);
}

static void fill(unsigned char *to, unsigned char byte, size_t n) {
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(byte) : "memory");
}

static void copy(unsigned char *to, const unsigned char *from, size_t n) {
    size_t words = n / 8;
    __asm__ volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory");
    n %= 8;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
}

static void copy_back(unsigned char *to, const unsigned char *from, size_t n) {
    to += n - 1, from += n - 1;
    __asm__ volatile("std\n\trep movsb\n\tcld" : "+D"(to), "+S"(from), "+c"(n) : : "memory", "cc");
}

static void *work(void *arg) {
    unsigned long seed = (unsigned long)arg, thread = seed;
    static _Thread_local unsigned char own[SIZE];
    unsigned char *page = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    for (int round = 0; round < ROUNDS; round++) {
        seed = seed * 6364136223846793005ul + 1442695040888963407ul;
        size_t n = 1 + (seed >> 33) % SIZE, at = (seed >> 20) % (SIZE - n + 1);
        int which = (int)((seed >> 50) % BUFFERS);
        pthread_mutex_lock(&buffers[which].lock);
        // Of a buffer all bytes are the same.
        unsigned char *bytes = buffers[which].bytes, old = buffers[which].fill;
        if (round % 2)
            copy(own, bytes + at, n);
        else
            copy_back(own, bytes + at, n);
        CHECK(own[0] == old && own[n / 2] == old && own[n - 1] == old);
        fill(own, (unsigned char)(round + (int)thread), SIZE);
        copy(bytes, own, SIZE);
        buffers[which].fill = own[0];
        pthread_mutex_unlock(&buffers[which].lock);
        if (round % 50 == 0) {
            CHECK(mprotect(page + 4096, 4096, PROT_NONE) == 0);
            (round % 100 ? copy_back : copy)(page + 100, own, 2 * 4096 + 500);
            CHECK(page[100] == own[0] && page[5000] == own[0] && page[100 + 2 * 4096 + 499] == own[0]);
        }
    }
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_sigaction = open_page, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    for (int i = 0; i < BUFFERS; i++) pthread_mutex_init(&buffers[i].lock, NULL);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(opened == THREADS * (ROUNDS / 50));
    puts("ok");
    return 0;
}
