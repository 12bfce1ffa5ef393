// relive: output=free threads=yes
// Questions about mounts, quotas and file systems, and about the robust lists of other threads: the answers are those that the kernel
// gives here, and a replay has them again.
#include "check.h"
#include <pthread.h>
#include <sys/syscall.h>

enum { SYSFS = 139, QUOTACTL = 179, QUOTACTL_FD = 443, STATMOUNT = 457, LISTMOUNT = 458 };
static unsigned char buffer[4096];

// Prints the answer, and a sum of what it has written.
static void show(const char *name, long result) {
    unsigned sum = 0;
    int error = result < 0 ? errno : 0;
    for (unsigned i = 0; i < sizeof buffer; i++) sum = sum * 31 + buffer[i];
    printf("%s %ld %d %x\n", name, result, error, sum);
    memset(buffer, 0, sizeof buffer);
}

static int tids[2];
static void *list_of_thread;
static pthread_barrier_t barrier;

static void *has_list(void *unused) {
    size_t length;
    tids[0] = syscall(SYS_gettid);
    CHECK(syscall(SYS_get_robust_list, 0, &list_of_thread, &length) == 0 && length == 24);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

static void lists(void) {
    pthread_t thread;
    void *list = NULL;
    size_t length = 0;
    CHECK0(pthread_barrier_init(&barrier, NULL, 2));
    CHECK0(pthread_create(&thread, NULL, has_list, NULL));
    pthread_barrier_wait(&barrier);
    CHECK(list_of_thread != NULL);
    CHECK(syscall(SYS_get_robust_list, tids[0], &list, &length) == 0 && list == list_of_thread && length == 24);
    pthread_barrier_wait(&barrier);
    CHECK0(pthread_join(thread, NULL));
    errno = 0;
    CHECK(syscall(SYS_get_robust_list, 0x3fffffff, &list, &length) == -1 && errno == ESRCH);
    CHECK(syscall(SYS_get_robust_list, getpid(), &list, (void *)8) == -1 && errno == EFAULT);
}

int main(void) {
    show("Q_SYNC", syscall(QUOTACTL, 0x800001 << 8, NULL, 0, NULL));
    show("Q_GETQUOTA", syscall(QUOTACTL, 0x800007 << 8, "/nowhere", 0, buffer));
    show("Q_GETFMT", syscall(QUOTACTL, (0x800004 << 8) | 1, "/dev/null", 0, buffer));
    show("Q_GETINFO", syscall(QUOTACTL_FD, 0, 0x800005 << 8, 0, buffer));
    long count = syscall(SYSFS, 3);
    show("count", count);
    for (int i = 0; i < 3; i++) {
        long named = syscall(SYSFS, 2, i, buffer);
        if (named == 0) CHECK(syscall(SYSFS, 1, buffer) == i);
        show("name", named);
    }
    show("no such file system", syscall(SYSFS, 1, "nowhere"));
    // The version of the structure that came first.
    struct {
        unsigned size, spare;
        unsigned long id, parameter;
    } request = {24, 0, ~0UL, 0};
    unsigned long first = 0;
    long mounts = syscall(LISTMOUNT, &request, buffer, sizeof buffer / 8, 0);
    memcpy(&first, buffer, sizeof first);
    show("mounts", mounts);
    // What is mounted where, and its file system's kind.
    request.id = first, request.parameter = 0x3f;
    show("mount", syscall(STATMOUNT, &request, buffer, sizeof buffer, 0));
    show("no room", syscall(STATMOUNT, &request, buffer, 8, 0));
    request.size = 3;
    show("no request", syscall(STATMOUNT, &request, buffer, sizeof buffer, 0));
    lists();
    return ok();
}
