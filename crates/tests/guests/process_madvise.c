// relive: link=pie,static
// Advice about memory by a descriptor of a process: to itself, to a child; errors.
#include "check.h"
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#define PAGE 4096L

static long advise(int pidfd, const struct iovec *parts, unsigned long n, int advice, unsigned flags) {
    return syscall(SYS_process_madvise, pidfd, parts, n, advice, flags);
}

static int pidfd_of(pid_t pid) {
    int fd = syscall(SYS_pidfd_open, pid, 0);
    CHECK(fd >= 0);
    return fd;
}

int main(void) {
    char *p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    memset(p, 'x', 8 * PAGE);
    struct iovec parts[] = {{p, 2 * PAGE}, {p + 4 * PAGE, PAGE}};
    int self = pidfd_of(getpid());
    if (advise(self, parts, 2, MADV_COLD, 0) == -1 && errno == ENOSYS) return puts("ok") < 0;
    CHECK(advise(self, parts, 2, MADV_COLD, 0) == 3 * PAGE);
    CHECK(advise(self, parts, 2, MADV_PAGEOUT, 0) == 3 * PAGE);
    for (long i = 0; i < 8 * PAGE; i++) CHECK(p[i] == 'x');

    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        pause();
        _exit(1);
    }
    int other = pidfd_of(child);
    CHECK(advise(other, parts, 1, MADV_COLD, 0) == 2 * PAGE);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);

    CHECK(advise(self, parts, 2, MADV_COLD, 1) == -1 && errno == EINVAL);
    CHECK(advise(self, parts, 2, 12345, 0) == -1 && errno == EINVAL);
    CHECK(advise(-1, parts, 2, MADV_COLD, 0) == -1 && errno == EBADF);
    CHECK(advise(self, (void *)8, 2, MADV_COLD, 0) == -1 && errno == EFAULT);
    CHECK(munmap(p + 4 * PAGE, PAGE) == 0);
    // What has been done until the hole counts.
    CHECK(advise(self, parts, 2, MADV_COLD, 0) == 2 * PAGE);
    struct iovec gone = {p + 4 * PAGE, PAGE};
    CHECK(advise(self, &gone, 1, MADV_COLD, 0) == -1 && errno == ENOMEM);
    puts("ok");
    return 0;
}
