// relive: link=pie
// Calls that a replay makes again by itself, with memory behind the end of a file that is mapped shared: they fail with EFAULT,
// as far as they have come. The file may grow afterwards.
#include "check.h"
#include <asm/prctl.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static char *map;

static void fails(long result) {
    CHECK(result == -1 && errno == EFAULT);
}

static unsigned long blocked(void) {
    unsigned long set = 0;
    CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &set, 8) == 0);
    return set;
}

static void all(char *at) {
    unsigned long user = 1UL << (SIGUSR1 - 1), none = 0;
    fails(syscall(SYS_rt_sigaction, SIGUSR1, at, NULL, 8));
    fails(syscall(SYS_rt_sigaction, SIGUSR1, NULL, at, 8));
    fails(syscall(SYS_rt_sigprocmask, SIG_BLOCK, at, NULL, 8));
    fails(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &user, at, 8));
    CHECK(blocked() == user);
    CHECK(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, NULL, 8) == 0);
    // A probe whether memory can be read.
    fails(syscall(SYS_rt_sigprocmask, ~0, at, NULL, 8));
    fails(syscall(SYS_sigaltstack, at, NULL));
    fails(syscall(SYS_sigaltstack, NULL, at));
    fails(syscall(SYS_arch_prctl, ARCH_GET_FS, at));
}

int main(void) {
    static const long page = 4096;
    int fd = open("mapped", O_CREAT | O_RDWR | O_TRUNC, 0600);
    CHECK(fd >= 0 && ftruncate(fd, page) == 0);
    map = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(map != MAP_FAILED);
    memset(map, 0, page);
    all(map + page);
    all(map + page - 4);
    CHECK(ftruncate(fd, 0) == 0);
    all(map);
    all(map + 2 * page);
    CHECK(ftruncate(fd, 3 * page) == 0);
    for (long at = 0; at < 3 * page; at += page - 8) {
        CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, map + at, 8) == 0);
        CHECK(syscall(SYS_rt_sigprocmask, ~0, map + at, NULL, 8) == -1 && errno == EINVAL);
    }
    unlink("mapped");
    ok();
}
