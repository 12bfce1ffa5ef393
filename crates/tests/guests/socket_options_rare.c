// relive: link=pie
// Rarer options and requests of sockets and descriptors: filters of raw sockets where the user may make
// them, the peer of a socket as a descriptor, which comes behind a pointer, the file of a bound socket.
#include "check.h"
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

// Newer than some headers.
enum { PEERPIDFD = 77, UNIXFILE = 0x89e0, RAW = 255, FILTER = 1 };

static void kept(int s, int level, int option, int value) {
    int got = -1;
    socklen_t len = sizeof got;
    if (setsockopt(s, level, option, &value, sizeof value) != 0) {
        CHECK(errno == ENOPROTOOPT || errno == EPERM || errno == EOPNOTSUPP);
        return;
    }
    CHECK(getsockopt(s, level, option, &got, &len) == 0 && len == sizeof got && got == value);
}

static void peer(void) {
    int pair[2], file = -1;
    socklen_t len = sizeof file;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    if (getsockopt(pair[0], SOL_SOCKET, PEERPIDFD, &file, &len) != 0) {
        CHECK(errno == ENOPROTOOPT); // Before Linux 6.5.
        return;
    }
    CHECK(len == sizeof file && file > pair[1]);
    CHECK(fcntl(file, F_GETFD) == FD_CLOEXEC);
    CHECK(syscall(SYS_pidfd_send_signal, file, 0, NULL, 0) == 0);
    CHECK(close(file) == 0 && close(pair[0]) == 0 && close(pair[1]) == 0);
}

static void file_of_socket(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(s, (struct sockaddr *)&address, sizeof address) == 0);
    int file = ioctl(s, UNIXFILE, 0);
    struct stat status;
    if (file >= 0) CHECK(fstat(file, &status) == 0 && S_ISSOCK(status.st_mode) && close(file) == 0);
    else CHECK(errno == EPERM); // Without CAP_NET_ADMIN.
    CHECK(close(s) == 0 && unlink("socket") == 0);
}

int main(void) {
    int raw = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
    if (raw >= 0) kept(raw, RAW, FILTER, ~1);
    int tcp = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(tcp >= 0);
    kept(tcp, SOL_SOCKET, SO_SELECT_ERR_QUEUE, 1);
    kept(tcp, SOL_SOCKET, SO_WIFI_STATUS, 1);
    kept(tcp, IPPROTO_TCP, TCP_REPAIR, 0);
    peer();
    file_of_socket();
    unsigned char set[8] = {5, 0, 0, 0, 4}, got[8] = {0};
    int epoll = epoll_create1(0);
    if (ioctl(epoll, 0x40088a01, set) == 0) // EPIOCSPARAMS, of Linux 6.9.
        CHECK(ioctl(epoll, 0x80088a02, got) == 0 && memcmp(set, got, sizeof set) == 0);
    puts("ok");
}
