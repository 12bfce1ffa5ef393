// relive: link=pie
// A SIGSEGV handler that makes the page usable, and the instruction that is run again:
// loads, stores, read-modify-write, string instructions halfway, lazily filled pages.
#include "fault.h"
#include <sys/mman.h>

enum { PAGES = 40, PAGE = 4096 };
static char *volatile base;
#define area ((volatile char *)base)
static volatile int faults;

static void on_segv(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)context;
    char *page = (char *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1));
    CHECK(page >= base && page < base + PAGES * PAGE);
    CHECK(mprotect(page, PAGE, PROT_READ | PROT_WRITE) == 0);
    faults++;
}

static void close_all(void) { CHECK(mprotect(base, PAGES * PAGE, PROT_NONE) == 0); }

int main(void) {
    handle(SIGSEGV, on_segv, 0);
    base = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(base != MAP_FAILED);
    for (int i = 0; i < PAGES; i++) area[i * PAGE + i] = (char)i;
    CHECK(faults == PAGES);
    close_all();
    for (int i = 0; i < PAGES; i++) CHECK(area[i * PAGE + i] == i);
    CHECK(faults == 2 * PAGES);
    close_all();
    for (int i = 0; i < PAGES; i++) __atomic_fetch_add(&area[i * PAGE + i], 1, __ATOMIC_SEQ_CST);
    CHECK(faults == 3 * PAGES && area[5 * PAGE + 5] == 6);
    // A string store that crosses every page faults once in each and loses nothing.
    close_all();
    faults = 0;
    void *to = base + 100;
    size_t count = (PAGES - 1) * PAGE;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(count) : "a"(0x5a) : "memory");
    CHECK(count == 0 && faults == PAGES);
    for (int i = 100; i < 100 + (PAGES - 1) * PAGE; i++) CHECK(area[i] == 0x5a);
    // A copy between two closed pages, and one word across a border.
    close_all();
    faults = 0;
    void *from = base + PAGE - 8;
    to = base + 20 * PAGE - 8;
    count = 2;
    __asm__ volatile("rep movsq" : "+S"(from), "+D"(to), "+c"(count) : : "memory");
    CHECK(faults == 4);
    close_all();
    uint64_t word;
    word = *(volatile uint64_t *)(base + 2 * PAGE - 3);
    CHECK(word == 0x5a5a5a5a5a5a5a5aull);
    // A read-only page faults with the accessor code on a write, not on a read.
    CHECK(mprotect(base, PAGE, PROT_READ) == 0);
    faults = 0;
    CHECK(area[300] == 0x5a && faults == 0);
    area[300]++;
    CHECK(faults == 1 && area[300] == 0x5b);
    // A system call into a closed page fails with EFAULT and raises nothing.
    close_all();
    int pipes[2];
    CHECK(pipe(pipes) == 0 && write(pipes[1], base, 1) == -1 && errno == EFAULT && faults == 1);
    return ok();
}
