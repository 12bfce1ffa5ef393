// relive: link=pie sketch=yes parallel=exact
// Priority-inheriting locks that the kernel takes and frees, without anybody else: their word is as the
// kernel has left it, where threads may run together too.
#include "check.h"
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile unsigned word;

static long futex(int op) { return syscall(SYS_futex, &word, op, 0, NULL, NULL, 0); }

int main(void) {
    const unsigned me = (unsigned)syscall(SYS_gettid);
    for (int i = 0; i < 20; i++) {
        const int private = i % 2 ? FUTEX_PRIVATE_FLAG : 0;
        CHECK(futex((i % 3 ? FUTEX_LOCK_PI : FUTEX_TRYLOCK_PI) | private) == 0);
        CHECK(word == me);
        CHECK(futex(FUTEX_LOCK_PI | private) == -1 && errno == EDEADLK && word == me);
        CHECK(futex(FUTEX_UNLOCK_PI | private) == 0);
        CHECK(word == 0);
        CHECK(futex(FUTEX_UNLOCK_PI | private) == -1 && errno == EPERM && word == 0);
    }
    puts("ok");
}
