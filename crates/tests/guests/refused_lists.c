// relive: threads=yes sketch=yes
// A list of more than 1024 buffers is refused before any of it is looked at, also one that leads
// anywhere; and of the flags of a signal's action the kernel keeps those that it knows.
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { MOST = 1024 };

// Pointers of no use, of the kernel's half and of low memory in turn.
static struct iovec astray[MOST + 1], good[MOST + 1], *nowhere;

static long refused(long result) {
    CHECK(result == -1);
    return errno;
}

static void lists(void) {
    char name[] = "listsXXXXXX";
    int fd = mkstemp(name);
    CHECK(fd >= 0 && unlink(name) == 0 && write(fd, "0123456789", 10) == 10);
    struct iovec *all[] = {astray, good, nowhere};
    for (int i = 0; i < 3; i++) {
        struct iovec *list = all[i];
        CHECK(refused(syscall(SYS_readv, fd, list, MOST + 1)) == EINVAL);
        CHECK(refused(syscall(SYS_writev, fd, list, MOST + 1)) == EINVAL);
        CHECK(refused(syscall(SYS_preadv, fd, list, MOST + 1, 0, 0)) == EINVAL);
        CHECK(refused(syscall(SYS_pwritev, fd, list, MOST + 1, 0, 0)) == EINVAL);
        CHECK(refused(syscall(SYS_preadv2, fd, list, MOST + 1, 0, 0, 0)) == EINVAL);
        CHECK(refused(syscall(SYS_pwritev2, fd, list, MOST + 1, 0, 0, 0)) == EINVAL);
        // The kernel has the number in 32 bits.
        CHECK(refused(syscall(SYS_readv, fd, list, (1L << 40) + MOST + 1)) == EINVAL);
        CHECK(syscall(SYS_readv, fd, list, 1L << 40) == 0);
        CHECK(syscall(SYS_writev, fd, list, 1L << 40) == 0);
        CHECK(refused(syscall(SYS_readv, -1, list, MOST + 1)) == EBADF);
    }
    // The most that there can be.
    CHECK(lseek(fd, 0, SEEK_SET) == 0 && readv(fd, good, MOST) == 10);
    CHECK(lseek(fd, 0, SEEK_SET) == 0 && syscall(SYS_readv, fd, good, (1L << 32) + 2) == 2);
    CHECK(close(fd) == 0);
}

static void pipes(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(refused(syscall(SYS_readv, ends[0], astray, MOST + 1)) == EINVAL);
    CHECK(refused(syscall(SYS_writev, ends[1], astray, MOST + 1)) == EINVAL);
    CHECK(refused(syscall(SYS_vmsplice, ends[1], astray, MOST + 1, 0)) == EINVAL);
    CHECK(refused(syscall(SYS_writev, 1, astray, MOST + 1)) == EINVAL);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

static void messages(void) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
    struct msghdr message = {.msg_iov = astray, .msg_iovlen = MOST + 1};
    CHECK(refused(sendmsg(ends[0], &message, 0)) == EMSGSIZE);
    CHECK(refused(recvmsg(ends[1], &message, MSG_DONTWAIT)) == EMSGSIZE);
    struct mmsghdr several = {.msg_hdr = message};
    CHECK(refused(sendmmsg(ends[0], &several, 1, 0)) == EMSGSIZE);
    message.msg_iovlen = 1L << 40;
    CHECK(refused(sendmsg(ends[0], &message, 0)) == EMSGSIZE);
    CHECK(close(ends[0]) == 0 && close(ends[1]) == 0);
}

static void memory(void) {
    pid_t self = getpid();
    char byte = 0;
    struct iovec one = {&byte, 1};
    int calls[] = {SYS_process_vm_readv, SYS_process_vm_writev};
    for (int i = 0; i < 2; i++) {
        CHECK(refused(syscall(calls[i], self, astray, MOST + 1, &one, 1, 0)) == EINVAL);
        CHECK(refused(syscall(calls[i], self, &one, 1, astray, MOST + 1, 0)) == EINVAL);
        CHECK(refused(syscall(calls[i], self, &one, 1, nowhere, MOST + 1, 0)) == EINVAL);
        CHECK(refused(syscall(calls[i], self, &one, 1, astray, 1L << 40, 0)) == EINVAL);
        CHECK(syscall(calls[i], self, astray, 1L << 40, &one, 1, 0) == 0);
        // Of another process, too.
        CHECK(refused(syscall(calls[i], getppid(), astray, MOST + 1, &one, 1, 0)) == EINVAL);
        CHECK(refused(syscall(calls[i], getppid(), &one, 1, astray, MOST + 1, 0)) == EINVAL);
        CHECK(refused(syscall(calls[i], getppid(), nowhere, 1, &one, 1, 0)) == EFAULT);
        CHECK(refused(syscall(calls[i], getppid(), &one, 1, nowhere, 1, 0)) == EFAULT);
        CHECK(refused(syscall(calls[i], 0x7ffffff0, &one, 1, &one, 1, 0)) == ESRCH);
    }
}

// `struct sigaction` as the kernel has it.
struct action {
    unsigned long handler, flags, restorer, mask;
};

static void flags(void) {
    struct action all = {(unsigned long)SIG_IGN, ~0UL, 0, 0}, kept;
    CHECK(syscall(SYS_rt_sigaction, SIGUSR1, &all, NULL, 8) == 0);
    CHECK(syscall(SYS_rt_sigaction, SIGUSR1, NULL, &kept, 8) == 0);
    CHECK(kept.flags == 0xdc000807);
    // A program asks by SA_UNSUPPORTED whether the kernel clears flags at all.
    struct action asks = {(unsigned long)SIG_IGN, 0x400 | SA_RESTART, 0, 0};
    CHECK(syscall(SYS_rt_sigaction, SIGUSR1, &asks, NULL, 8) == 0);
    CHECK(syscall(SYS_rt_sigaction, SIGUSR1, NULL, &kept, 8) == 0);
    CHECK(kept.flags == SA_RESTART);
}

static void *work(void *arg) {
    lists();
    pipes();
    messages();
    memory();
    return arg;
}

int main(void) {
    static char bytes[MOST + 1];
    for (int i = 0; i <= MOST; i++) {
        astray[i].iov_base = (void *)(i % 2 ? 0xffff800000000000 : 0x10);
        astray[i].iov_len = i % 3 ? 16 : (size_t)-1;
        good[i] = (struct iovec){bytes + i, 1};
    }
    nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(nowhere != MAP_FAILED);
    flags();
    work(NULL);
    // With others that could see the buffers meanwhile.
    pthread_t other;
    CHECK0(pthread_create(&other, NULL, work, NULL));
    work(NULL);
    CHECK0(pthread_join(other, NULL));
    return ok();
}
