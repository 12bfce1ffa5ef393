// relive: threads=yes sketch=yes parallel=exact
/* Calls that do not wait: by the status flags of a descriptor, the flags of a message, a limit of zero. A thread that asks again and
   again must not keep others from what it asks for, and nothing is lost between two threads that look at the same file. */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROUNDS = 200, TAKERS = 2, BYTES = 500 };

static int there[2], back[2], pair[2], many[2], counter, watcher;

static void put(int fd) {
    char byte = 1;
    CHECK(write(fd, &byte, 1) == 1);
}

/* Takes a byte by one of the ways. */
static void take(int round, int fd, int socket) {
    char byte;
    struct pollfd wanted = {.fd = fd, .events = POLLIN};
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
    for (;;) {
        ssize_t n = -1;
        switch (round % 4) {
        case 0: n = read(fd, &byte, 1); break;
        case 1:
            if (poll(&wanted, 1, 0) == 0) continue;
            n = read(fd, &byte, 1);
            break;
        case 2: n = recv(socket, &byte, 1, MSG_DONTWAIT); break;
        case 3: n = recvmsg(socket, &message, MSG_DONTWAIT); break;
        }
        if (n == 1) return;
        CHECK(n == -1 && errno == EAGAIN);
    }
}

static void *answers(void *unused) {
    for (int round = 0; round < ROUNDS; round++) {
        take(round, there[0], pair[1]);
        put(round % 4 < 2 ? back[1] : pair[1]);
    }
    return unused;
}

static int taken[TAKERS];

static void *takes(void *which) {
    char byte;
    for (;;) {
        ssize_t n = read(many[0], &byte, 1);
        if (n == 1) {
            taken[(long)which]++;
        } else if (n == 0) {
            return NULL;
        } else {
            CHECK(errno == EAGAIN);
        }
    }
}

static void *counts(void *unused) {
    struct epoll_event event;
    unsigned long sum = 0, value;
    while (sum < ROUNDS) {
        int ready = epoll_wait(watcher, &event, 1, 0);
        if (ready == 0) continue;
        CHECK(ready == 1 && read(counter, &value, 8) == 8);
        sum += value;
    }
    CHECK(read(counter, &value, 8) == -1 && errno == EAGAIN);
    return unused;
}

int main(void) {
    pthread_t thread, takers[TAKERS];
    CHECK0(pipe2(there, O_NONBLOCK));
    CHECK0(pipe2(back, O_NONBLOCK));
    CHECK0(pipe2(many, O_NONBLOCK));
    CHECK0(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));

    CHECK0(pthread_create(&thread, NULL, answers, NULL));
    for (int round = 0; round < ROUNDS; round++) {
        put(round % 4 < 2 ? there[1] : pair[0]);
        take(round, back[0], pair[0]);
    }
    CHECK0(pthread_join(thread, NULL));

    for (long i = 0; i < TAKERS; i++) CHECK0(pthread_create(&takers[i], NULL, takes, (void *)i));
    for (int i = 0; i < BYTES; i++) put(many[1]);
    CHECK0(close(many[1]));
    for (int i = 0; i < TAKERS; i++) CHECK0(pthread_join(takers[i], NULL));
    CHECK(taken[0] + taken[1] == BYTES);

    counter = eventfd(0, EFD_NONBLOCK);
    watcher = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK0(epoll_ctl(watcher, EPOLL_CTL_ADD, counter, &event));
    CHECK0(pthread_create(&thread, NULL, counts, NULL));
    for (unsigned long i = 0, one = 1; i < ROUNDS; i++) CHECK(write(counter, &one, 8) == 8);
    CHECK0(pthread_join(thread, NULL));
    ok();
}
