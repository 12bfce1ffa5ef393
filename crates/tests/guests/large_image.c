// relive: link=nopie,static,pie flags="-O1"
// A fixed-address image that is large: 48 MiB of data, 8 MiB of sparse code space, so that
// branches and RIP-relative operands need more than a few pages of reach.
#include "check.h"

static char data[48 << 20] = {1};
asm(".text\n.balign 4096\nfar_low: lea 1(%rdi), %rax\n ret\n .skip 4194304, 0xcc\n"
    "far_mid: lea 2(%rdi), %rdi\n jmp far_low\n .skip 4194304, 0xcc\n"
    "far_high: push %rbx\n mov %rdi, %rbx\n call far_mid\n add %rbx, %rax\n pop %rbx\n ret\n");
long far_low(long), far_mid(long), far_high(long);

int main(void) {
    for (long i = 0; i < 1000; i++) {
        CHECK(far_low(i) == i + 1);
        CHECK(far_high(i) == 2 * i + 3);
    }
    long (*volatile pointer)(long) = far_mid;
    CHECK(pointer(5) == 8);
    for (size_t i = 0; i < sizeof data; i += 1 << 20) data[i]++;
    CHECK(data[0] == 2 && data[40 << 20] == 1 && data[1] == 0);
    return ok();
}
