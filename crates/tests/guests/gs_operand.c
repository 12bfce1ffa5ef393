// relive: link=pie,static
// A GS-relative operand with the base that every program starts with: zero.
#include "check.h"

static uint64_t cell = 41;

int main(void) {
    uint64_t value;
    __asm__ volatile("incq %%gs:(%1)\n\tmovq %%gs:(%1), %0" : "=r"(value) : "r"(&cell) : "cc", "memory");
    CHECK(value == 42 && cell == 42);
    return ok();
}
