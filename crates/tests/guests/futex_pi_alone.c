// relive: link=pie sketch=yes parallel=refused
// Priority-inheriting locks that the kernel takes and frees, without anybody else: their word is as the
// kernel has left it, where threads may run together too.
#include "check.h"
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile unsigned word;

static long futex_until(int op, const struct timespec *end) { return syscall(SYS_futex, &word, op, 0, end, NULL, 0); }
static long futex(int op) { return futex_until(op, NULL); }

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
    // A timeout is looked at where nobody waits, too.
    static const struct timespec bad[] = {{0, -1}, {-1, 0}, {0, 1000000000}}, good = {0, 0};
    for (int i = 0; i < 3; i++) CHECK(futex_until(FUTEX_LOCK_PI, &bad[i]) == -1 && errno == EINVAL && word == 0);
    CHECK(futex_until(FUTEX_LOCK_PI, (void *)8) == -1 && errno == EFAULT && word == 0);
    CHECK(futex_until(FUTEX_LOCK_PI, &good) == 0 && word == me && futex(FUTEX_UNLOCK_PI) == 0);
    puts("ok");
}
