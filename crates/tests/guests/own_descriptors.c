// relive:
// The recorder's own descriptors are not there for the program, in any request: by number, in
// arrays and sets, in messages, by name, from another process.
#include "check.h"
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { FIRST = 20, END = 1100 };

#define FAILS(wanted, call) CHECK((call) == -1 && errno == (wanted))

static char buffer[8192];
static int pair[2], epoll;

static void by_number(int fd) {
    struct stat st;
    struct epoll_event event = {.events = EPOLLIN};
    FAILS(EBADF, fcntl(fd, F_GETFD));
    FAILS(EBADF, fcntl(fd, F_SETFD, 0));
    FAILS(EBADF, fcntl(fd, F_DUPFD, 0));
    FAILS(EBADF, fcntl(fd, 77777));
    FAILS(EBADF, fstat(fd, &st));
    FAILS(EBADF, read(fd, buffer, 1));
    FAILS(EBADF, write(fd, buffer, 1));
    FAILS(EBADF, pread(fd, buffer, 1, 0));
    FAILS(EBADF, lseek(fd, 0, SEEK_SET));
    FAILS(EBADF, ftruncate(fd, 0));
    FAILS(EBADF, dup(fd));
    FAILS(EBADF, dup2(fd, 3));
    FAILS(EBADF, ioctl(fd, FIONREAD, buffer));
    FAILS(EBADF, ioctl(fd, 0x12345678, buffer));
    FAILS(EBADF, fsync(fd));
    FAILS(EBADF, fchmod(fd, 0600));
    FAILS(EBADF, openat(fd, "x", O_RDONLY));
    FAILS(EBADF, faccessat(fd, "x", F_OK, 0));
    FAILS(EBADF, epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
    FAILS(EBADF, epoll_ctl(fd, EPOLL_CTL_ADD, 0, &event));
    FAILS(EBADF, syscall(SYS_close, fd));
    CHECK(mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0) == MAP_FAILED && errno == EBADF);
    // A number that is not looked at does no harm.
    void *anonymous = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, fd, 0);
    CHECK(anonymous != MAP_FAILED && munmap(anonymous, 4096) == 0);
    CHECK(faccessat(fd, "/", F_OK, 0) == 0);
    CHECK(fstatat(fd, "/", &st, 0) == 0);
    FAILS(ENOENT, faccessat(AT_FDCWD, "there is none", F_OK, 0));
}

static void in_arrays(int fd) {
    struct pollfd polled[3] = {{.fd = pair[0], .events = POLLIN},
                               {.fd = fd, .events = POLLIN},
                               {.fd = pair[1], .events = POLLOUT}};
    CHECK(poll(polled, 3, 0) == 2);
    CHECK(polled[0].revents == 0 && polled[1].revents == POLLNVAL && polled[2].revents == POLLOUT);
    CHECK(polled[0].fd == pair[0] && polled[1].fd == fd && polled[2].fd == pair[1]);
    struct timespec none = {0, 0};
    polled[1].revents = 0;
    CHECK(ppoll(polled + 1, 1, &none, NULL) == 1 && polled[1].revents == POLLNVAL);
}

static void in_messages(int fd) {
    char data[1] = {'x'};
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec part = {data, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(2 * sizeof(int));
    int sent[2] = {pair[0], fd};
    memcpy(CMSG_DATA(header), sent, sizeof sent);
    FAILS(EBADF, sendmsg(pair[0], &message, 0));
    struct mmsghdr several[2] = {{.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}}, {.msg_hdr = message}};
    CHECK(sendmmsg(pair[0], several, 2, 0) == 1 && several[0].msg_len == 1);
    CHECK(recv(pair[1], buffer, sizeof buffer, 0) == 1);
    FAILS(EBADF, sendmmsg(pair[0], several + 1, 1, 0));
    FAILS(EAGAIN, recv(pair[1], buffer, sizeof buffer, MSG_DONTWAIT));
}

static void named(const char *folder, int fd) {
    char path[100], link[100];
    struct stat st;
    snprintf(path, sizeof path, "%s/%d", folder, fd);
    FAILS(ENOENT, readlink(path, link, sizeof link));
    FAILS(ENOENT, stat(path, &st));
    FAILS(ENOENT, lstat(path, &st));
    FAILS(ENOENT, access(path, F_OK));
    FAILS(ENOENT, open(path, O_RDONLY));
    FAILS(ENOENT, open(path, O_PATH));
    int at = open(folder, O_RDONLY | O_DIRECTORY);
    CHECK(at >= 0);
    FAILS(ENOENT, fstatat(at, strrchr(path, '/') + 1, &st, 0));
    FAILS(ENOENT, openat(at, strrchr(path, '/') + 1, O_RDONLY));
    CHECK(close(at) == 0);
    strcat(path, "/within");
    FAILS(ENOENT, access(path, F_OK));
}

static void listed(const char *folder) {
    DIR *list = opendir(folder);
    CHECK(list != NULL);
    for (struct dirent *entry; (entry = readdir(list)) != NULL;) CHECK(atoi(entry->d_name) < FIRST);
    CHECK(closedir(list) == 0);
    int at = open(folder, O_RDONLY | O_DIRECTORY);
    for (long n; (n = syscall(SYS_getdents, at, buffer, sizeof buffer)) != 0;) {
        CHECK(n > 0);
        for (char *p = buffer; p < buffer + n; p += *(unsigned short *)(p + 16)) CHECK(atoi(p + 18) < FIRST);
    }
    CHECK(close(at) == 0);
}

// The view of another process on this one.
static void from_outside(void) {
    pid_t parent = getpid(), child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char folder[50];
        snprintf(folder, sizeof folder, "/proc/%d/fd", parent);
        listed(folder);
        int of = syscall(SYS_pidfd_open, parent, 0);
        CHECK(of >= 0);
        for (int fd = 1000; fd < END; fd++) {
            named(folder, fd);
            FAILS(EBADF, syscall(SYS_pidfd_getfd, of, fd, 0));
        }
        _exit(0);
    }
    expect_exit(child, 0);
}

int main(void) {
    CHECK(syscall(SYS_close_range, 3, ~0u, 0) == 0);
    int file = open("data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file == 3 && write(file, buffer, sizeof buffer) == sizeof buffer);
    CHECK(pread(file, buffer, sizeof buffer, 0) == sizeof buffer && unlink("data") == 0);
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0 && (epoll = epoll_create1(0)) > 0);
    for (int fd = FIRST; fd < END; fd++) {
        by_number(fd);
        in_arrays(fd);
        in_messages(fd);
    }
    for (int fd = 1000; fd < 1030; fd++) {
        named("/proc/self/fd", fd);
        named("/dev/fd", fd);
        named("/proc/thread-self/fd", fd);
        named("/proc/self/fdinfo", fd);
    }
    listed("/proc/self/fd");
    listed("/proc/self/fdinfo");
    from_outside();
    // A set is as large as the table of descriptors at least, which has no number that we know of:
    // the open descriptors make it large enough.
    int high = fcntl(file, F_DUPFD, 900);
    CHECK(high >= 900);
    for (int fd = high + 1; fd < FD_SETSIZE; fd++) {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(fd, &set);
        struct timeval none = {0, 0};
        FAILS(EBADF, select(fd + 1, NULL, &set, NULL, &none));
    }
    return ok();
}
