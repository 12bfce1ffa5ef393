// relive: expect=from\sthe\sparent
// Standard output that reaches a process as a message, by pidfd_getfd, or by a name: a replay
// has to show the bytes that go through it.
#include "check.h"
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>

static void say(int fd, const char *what) {
    CHECK(write(fd, what, strlen(what)) == (ssize_t)strlen(what));
}

union control {
    char bytes[CMSG_SPACE(3 * sizeof(int))];
    struct cmsghdr align;
};

static void send_three(int to, const int *three) {
    union control control;
    char byte = 'x';
    struct iovec data = {&byte, 1};
    struct msghdr message = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    memset(&control, 0, sizeof control);
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(3 * sizeof(int));
    memcpy(CMSG_DATA(head), three, 3 * sizeof(int));
    CHECK(sendmsg(to, &message, 0) == 1);
}

static void receive_three(int from, int *three, int many) {
    union control control;
    char byte;
    struct iovec data = {&byte, 1};
    struct mmsghdr message = {.msg_hdr = {.msg_iov = &data, .msg_iovlen = 1, .msg_control = control.bytes,
                                          .msg_controllen = sizeof control.bytes}};
    CHECK(many ? recvmmsg(from, &message, 1, 0, NULL) == 1 : recvmsg(from, &message.msg_hdr, 0) == 1);
    memcpy(three, CMSG_DATA(CMSG_FIRSTHDR(&message.msg_hdr)), 3 * sizeof(int));
}

int main(void) {
    int pair[2], three[3], zero = open("/dev/null", O_RDWR);
    CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) == 0);
    for (int many = 0; many < 2; many++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            CHECK(dup2(zero, 1) == 1);
            say(1, "nobody sees this\n");
            receive_three(pair[1], three, many);
            say(three[1], "received\n");
            say(three[0], "neither this\n");
            CHECK(close(three[1]) == 0);
            CHECK(open("/dev/null", O_WRONLY) == three[1]);
            say(three[1], "nor this\n");
            _exit(0);
        }
        send_three(pair[0], (int[]){zero, 1, pair[0]});
        expect_exit(child, 0);
    }
    int self = (int)syscall(SYS_pidfd_open, getpid(), 0);
    int got = (int)syscall(SYS_pidfd_getfd, self, 1, 0);
    if (got >= 0) say(got, "taken\n"); // A kernel may forbid it.
    else say(1, "taken\n");
    say(1, "from the parent\n");
    return 0;
}
