// relive: threads=yes sketch=yes
// TCP and UDP over 127.0.0.1 between two threads, Unix sockets with passed descriptors and
// credentials, socketpair, socket options, numeric getaddrinfo.
#include "check.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

static struct sockaddr_in tcp_at;

static int bound(int type, struct sockaddr_in *at) {
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    memset(at, 0, sizeof *at);
    at->sin_family = AF_INET;
    at->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof *at;
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)at, length) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)at, &length) == 0 && at->sin_port != 0);
    return fd;
}

static void *client(void *arg) {
    (void)arg;
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    CHECK(fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    CHECK(connect(fd, (struct sockaddr *)&tcp_at, sizeof tcp_at) == 0);
    static char big[300000];
    for (size_t i = 0; i < sizeof big; i++) big[i] = (char)(i % 251);
    size_t sent = 0;
    while (sent < sizeof big) {
        ssize_t n = send(fd, big + sent, sizeof big - sent, MSG_NOSIGNAL);
        CHECK(n > 0);
        sent += (size_t)n;
    }
    CHECK(shutdown(fd, SHUT_WR) == 0);
    char answer[8] = "";
    CHECK(recv(fd, answer, 8, MSG_WAITALL) == 4 && memcmp(answer, "done", 4) == 0 && close(fd) == 0);
    return NULL;
}

static void tcp(void) {
    int listener = bound(SOCK_STREAM, &tcp_at);
    CHECK(listen(listener, 5) == 0);
    pthread_t thread;
    CHECK0(pthread_create(&thread, NULL, client, NULL));
    struct sockaddr_in peer;
    socklen_t length = sizeof peer;
    int fd = accept4(listener, (struct sockaddr *)&peer, &length, SOCK_CLOEXEC);
    CHECK(fd >= 0 && length == sizeof peer && peer.sin_addr.s_addr == htonl(INADDR_LOOPBACK));
    char buffer[7777];
    size_t total = 0;
    ssize_t n;
    while ((n = recv(fd, buffer, sizeof buffer, 0)) > 0)
        for (ssize_t i = 0; i < n; i++) CHECK(buffer[i] == (char)(total++ % 251));
    CHECK(n == 0 && total == 300000 && write(fd, "done", 4) == 4 && close(fd) == 0);
    CHECK0(pthread_join(thread, NULL));
    CHECK(close(listener) == 0);
    int refused = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(refused, (struct sockaddr *)&tcp_at, sizeof tcp_at) == -1 && errno == ECONNREFUSED);
}

static void udp(void) {
    struct sockaddr_in a_at, b_at, from;
    int a = bound(SOCK_DGRAM, &a_at), b = bound(SOCK_DGRAM, &b_at);
    socklen_t length = sizeof from;
    char text[32];
    CHECK(sendto(a, "datagram", 8, 0, (struct sockaddr *)&b_at, sizeof b_at) == 8);
    CHECK(recvfrom(b, text, sizeof text, 0, (struct sockaddr *)&from, &length) == 8);
    CHECK(from.sin_port == a_at.sin_port && memcmp(text, "datagram", 8) == 0);
    struct mmsghdr many[3];
    struct iovec parts[3];
    memset(many, 0, sizeof many);
    for (int i = 0; i < 3; i++) {
        parts[i] = (struct iovec){"abcdef", (size_t)i + 1};
        many[i].msg_hdr.msg_iov = &parts[i];
        many[i].msg_hdr.msg_iovlen = 1;
    }
    CHECK(connect(a, (struct sockaddr *)&b_at, sizeof b_at) == 0 && sendmmsg(a, many, 3, 0) == 3);
    char room[3][8];
    for (int i = 0; i < 3; i++) parts[i] = (struct iovec){room[i], 8};
    CHECK(recvmmsg(b, many, 3, MSG_WAITFORONE, NULL) == 3 && many[2].msg_len == 3 && room[2][2] == 'c');
    CHECK(recv(b, text, 32, MSG_DONTWAIT) == -1 && errno == EAGAIN && close(a) == 0 && close(b) == 0);
}

static void unix_sockets(void) {
    int pair[2], one = 1;
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    CHECK(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof one) == 0);
    int passed = open("/dev/zero", O_RDONLY);
    union {
        char bytes[256];
        struct cmsghdr align;
    } control;
    struct iovec part = {"x", 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes};
    message.msg_controllen = CMSG_SPACE(sizeof(int));
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &passed, sizeof passed);
    CHECK(sendmsg(pair[0], &message, 0) == 1);
    char byte;
    part.iov_base = &byte;
    message.msg_controllen = sizeof control;
    CHECK(recvmsg(pair[1], &message, MSG_CMSG_CLOEXEC) == 1 && byte == 'x');
    int received = -1, credentials = 0;
    for (c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_type == SCM_RIGHTS) memcpy(&received, CMSG_DATA(c), sizeof received);
        if (c->cmsg_type == SCM_CREDENTIALS) {
            struct ucred who;
            memcpy(&who, CMSG_DATA(c), sizeof who);
            CHECK(who.pid == getpid() && who.uid == getuid());
            credentials++;
        }
    }
    int zero = -1;
    CHECK(received >= 0 && received != passed && credentials == 1 && read(received, &zero, 4) == 4 && zero == 0);

    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int server = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0), fd = socket(AF_UNIX, SOCK_STREAM, 0);
    CHECK(bind(server, (struct sockaddr *)&at, sizeof at) == 0 && listen(server, 1) == 0);
    CHECK(accept(server, NULL, NULL) == -1 && errno == EAGAIN);
    CHECK(connect(fd, (struct sockaddr *)&at, sizeof at) == 0);
    int end = accept(server, NULL, NULL), type = 0;
    struct ucred who;
    socklen_t length = sizeof who;
    CHECK(end >= 0 && getsockopt(end, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.pid == getpid());
    length = sizeof type;
    CHECK(getsockopt(end, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM);
    CHECK(write(fd, "ping", 4) == 4 && recv(end, &zero, 4, MSG_PEEK) == 4 && recv(end, &zero, 4, 0) == 4);
    CHECK(memcmp(&zero, "ping", 4) == 0);
}

int main(void) {
    tcp();
    udp();
    unix_sockets();
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *found;
    CHECK(getaddrinfo("127.0.0.1", "80", &hints, &found) == 0 && found->ai_family == AF_INET);
    CHECK(((struct sockaddr_in *)found->ai_addr)->sin_port == htons(80));
    freeaddrinfo(found);
    return ok();
}
