// relive: threads=yes flags="-fsanitize=address -O1 -g -pthread"
// AddressSanitizer: its shadow memory lies at fixed addresses, terabytes of it; one byte
// behind an allocation is noticed, in any thread, and so is a use of freed memory.
#include "check.h"
#include <pthread.h>
#include <sanitizer/asan_interface.h>
#include <stdint.h>
#include <sys/mman.h>

// Leaks are looked for with ptrace(2) at the end.
const char *__asan_default_options(void) { return "detect_leaks=0"; }

__attribute__((no_sanitize("address"))) static int shadow_of(char *at) {
    return *(unsigned char *)(((uintptr_t)at >> 3) + 0x7fff8000);
}

static void *work(void *arg) {
    uintptr_t sum = 0;
    for (int i = 1; i < 200; i++) {
        char *block = malloc((size_t)i);
        memset(block, i, (size_t)i);
        sum += (unsigned char)block[i - 1];
        CHECK(!__asan_address_is_poisoned(block + i - 1));
        CHECK(__asan_address_is_poisoned(block + i));
        free(block);
        CHECK(__asan_address_is_poisoned(block));
    }
    CHECK(sum == 199 * 200 / 2);
    return arg;
}

int main(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, work, NULL) == 0);
    work(NULL);
    for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    // The shadow of the stack and of a big map, seen through the shadow's own address.
    char local[64];
    CHECK(!__asan_address_is_poisoned(local) && __asan_address_is_poisoned(local + sizeof local));
    size_t big = 64 << 20;
    char *map = mmap(NULL, big, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED);
    __asan_poison_memory_region(map + 4096, 64);
    CHECK(shadow_of(map + 4096) == 0xf7);
    __asan_unpoison_memory_region(map + 4096, 64);
    CHECK(munmap(map, big) == 0);
    puts("ok");
    return 0;
}
