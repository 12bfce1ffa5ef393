// relive: sketch=yes parallel=refused
// Calls that fail with EFAULT have written to some of their buffers, or to a part of one: the kernel
// says nothing of it, and the program sees it.
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>

// The last bytes before memory that cannot be written.
static char *edge, nothing[] = "";
// Memory that nobody can use.
static void *nowhere;

static void shows(const char *name, long result, const void *at, int length) {
    printf("%s = %ld (%d):", name, result, result == -1 ? errno : 0);
    for (int i = 0; i < length; i++)
        printf(" %02x", ((const unsigned char *)at)[i]);
    puts("");
}

static pid_t ended(void) {
    pid_t child = fork();
    if (child == 0)
        _exit(8);
    return child;
}

static void children(void) {
    int status = 0x11;
    long result = syscall(SYS_wait4, ended(), &status, 0, nowhere);
    shows("wait4", result, &status, 4);
    siginfo_t info;
    memset(&info, 1, sizeof info);
    result = syscall(SYS_waitid, P_PID, ended(), &info, WEXITED, nowhere);
    shows("waitid", result, &info, 12);
}

static void messages(void) {
    int ends[2];
    char in[16], control[CMSG_SPACE(4)];
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0 && bind(ends[0], (void *)&name, 2) == 0);
    struct iovec whole = {in, 10}, split[] = {{in, 4}, {nowhere, 4}};
    struct msghdr message = {.msg_iov = &whole, .msg_iovlen = 1, .msg_name = nowhere, .msg_namelen = 100};
    memset(in, '.', sizeof in);
    CHECK(send(ends[0], "abcd", 4, 0) == 4);
    shows("recvmsg", recvmsg(ends[1], &message, 0), in, 6);
    memset(in, '.', sizeof in);
    socklen_t length = 100;
    CHECK(send(ends[0], "abcd", 4, 0) == 4);
    long result = recvfrom(ends[1], in, 10, 0, nowhere, &length);
    shows("recvfrom", result, in, 6);
    printf("%u\n", length);
    memset(in, '.', sizeof in);
    CHECK(send(ends[0], "abcdefgh", 8, 0) == 8);
    shows("readv", readv(ends[1], split, 2), in, 6);
    memset(in, '.', sizeof in);
    message = (struct msghdr){.msg_iov = &whole, .msg_iovlen = 1, .msg_control = control};
    message.msg_controllen = sizeof control;
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){CMSG_LEN(4), SOL_SOCKET, SCM_RIGHTS};
    memcpy(CMSG_DATA(header), &(int){1}, 4);
    CHECK(sendmsg(ends[0], &message, 0) == 10);
    memset(in, ',', sizeof in);
    message.msg_control = nowhere;
    shows("control", recvmsg(ends[1], &message, 0), in, 6);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, (int *)(edge - 4)) == -1 && errno == EFAULT);
    length = 20;
    shows("getsockname", getsockname(ends[0], (void *)(edge - 2), &length), edge - 2, 2);
    int value = 7;
    shows("getsockopt", getsockopt(ends[0], SOL_SOCKET, SO_TYPE, &value, (void *)edge), &value, 4);
}

static void waits(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    fd_set ready;
    FD_ZERO(&ready);
    FD_SET(ends[1], &ready);
    struct timeval now = {0, 0};
    shows("select", select(ends[1] + 1, (void *)edge, &ready, NULL, &now), &ready, 2);
    struct pollfd *polled = (void *)(edge - 12);
    CHECK(mprotect(edge, 4096, PROT_READ | PROT_WRITE) == 0);
    polled[0] = polled[1] = (struct pollfd){ends[1], POLLOUT, 5};
    CHECK(mprotect(edge, 4096, PROT_READ) == 0);
    shows("poll", poll(polled, 2, 0), polled, 16);
    int set = epoll_create1(0);
    struct epoll_event event = {EPOLLOUT, {.u64 = 7}};
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &event) == 0);
    CHECK(epoll_ctl(set, EPOLL_CTL_ADD, dup(ends[1]), &event) == 0);
    shows("epoll_wait", epoll_wait(set, (void *)(edge - 16), 2, 0), edge - 16, 16);
    memset(edge - 100, 9, 100);
    shows("epoll_wait", epoll_wait(set, (void *)(edge - 8), 2, 0), edge - 8, 8);
}

static void structures(void) {
    struct stat seen;
    memset(edge - 100, 9, 100);
    CHECK(fstat(1, &seen) == 0 && fstat(1, (void *)(edge - 20)) == -1 && errno == EFAULT);
    printf("fstat: %d\n", memcmp(edge - 20, &seen, 8) == 0);
    memset(edge - 100, 9, 100);
    shows("uname", syscall(SYS_uname, edge - 70), edge - 70, 5);
    memset(edge - 100, 9, 100);
    shows("getcwd", syscall(SYS_getcwd, edge - 1, 100), edge - 1, 1);
    shows("readlink", syscall(SYS_readlink, "/proc/self/root", edge, 10), nothing, 0);
    shows("getresuid", syscall(SYS_getresuid, edge - 8, edge - 4, edge), nothing, 0);
    uid_t ids[] = {getuid(), geteuid()};
    printf("ids: %d\n", memcmp(edge - 8, ids, 8) == 0);
    memset(edge - 100, 9, 100);
    shows("getrusage", syscall(SYS_getrusage, RUSAGE_CHILDREN, edge - 6), nothing, 0);
    shows("pipe", syscall(SYS_pipe, edge - 4), nothing, 0);
    shows("getdents64", syscall(SYS_getdents64, open("/", O_RDONLY), edge, 200), nothing, 0);
    shows("getrlimit", syscall(SYS_getrlimit, RLIMIT_CORE, edge - 8), nothing, 0);
}

int main(void) {
    char *map = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED && mprotect(map + 4096, 4096, PROT_READ) == 0);
    edge = map + 4096;
    nowhere = map + 8192;
    CHECK(mprotect(nowhere, 4096, PROT_NONE) == 0);
    children();
    messages();
    waits();
    structures();
    return ok();
}
