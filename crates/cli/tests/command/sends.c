// Writes to standard output, a socket, by every call that sends; returns 1 if one of them does not
// do what it does.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct iovec part(char *text) {
    return (struct iovec){text, strlen(text)};
}

int main(void) {
    if (send(1, "send\n", 5, 0) != 5 || sendto(1, "sendto\n", 7, MSG_NOSIGNAL, NULL, 0) != 7) return 1;
    struct iovec parts[] = {part("send"), part(""), part("msg\n"), part("first\n"), part("sec"), part("ond\n")};
    struct msghdr one = {.msg_iov = parts, .msg_iovlen = 3};
    if (sendmsg(1, &one, 0) != 8) return 1;
    struct mmsghdr many[3] = {
        {.msg_hdr = {.msg_iov = parts + 3, .msg_iovlen = 1}},
        {.msg_hdr = {.msg_iov = parts, .msg_iovlen = 0}},
        {.msg_hdr = {.msg_iov = parts + 4, .msg_iovlen = 2}},
    };
    if (sendmmsg(1, many, 3, 0) != 3 || many[0].msg_len != 6 || many[2].msg_len != 7) return 1;
    int copy = dup(1);
    if (!fork()) {
        // A child, through a copy of the descriptor.
        parts[0] = part("child: ");
        _exit(sendmsg(copy, &one, 0) != 11);
    }
    int status;
    if (wait(&status) < 0 || status != 0) return 1;
    // What is nowhere is not sent.
    one.msg_iov = (struct iovec *)8;
    if (sendmsg(1, &one, 0) != -1) return 1;
    return write(1, "end\n", 4) != 4;
}
