// relive: link=pie
// Flags that the kernel gives back to no interrupted code (ID and NT) are kept where a write meets a page
// that only the host protects: natively that write is no fault at all.
#include "check.h"
#include <sys/mman.h>

enum { PAGE = 4096, ID = 1 << 21, NT = 1 << 14 };

// Sets flags, writes a byte, and returns the flags that are then set.
static unsigned long write_with(unsigned long flags, unsigned char *at, unsigned char byte) {
    unsigned long after;
    __asm__ volatile("add $-128, %%rsp\n pushfq\n or %2, (%%rsp)\n popfq\n movb %3, (%1)\n pushfq\n pop %0\n"
                     "pushfq\n andq $~0x204000, (%%rsp)\n popfq\n sub $-128, %%rsp"
                     : "=&r"(after)
                     : "r"(at), "r"(flags), "r"(byte)
                     : "memory", "cc");
    return after & (ID | NT);
}

int main(void) {
    unsigned char *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(code != MAP_FAILED);
    unsigned char load[] = {0xb8, 0, 0, 0, 0, 0xc3}; // mov $0, %eax; ret
    memcpy(code, load, sizeof load);
    static const unsigned long flags[] = {0, ID, NT, ID | NT};
    for (int i = 0; i < 16; i++) {
        CHECK(((int (*)(void))code)() == i);
        // The page holds translated code now.
        CHECK(write_with(flags[i % 4], code + 1, i + 1) == flags[i % 4]);
    }
    return ok();
}
