// relive: threads=yes sketch=yes
// Pipes and the calls that wait on them: poll, select, epoll (level, edge, one-shot), eventfd,
// signalfd, splice, tee, sendfile, copy_file_range, memfd.
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <time.h>

static int pipes[2], event;

static void *later(void *arg) {
    struct timespec nap = {0, 2000000};
    nanosleep(&nap, NULL);
    uint64_t five = 5;
    CHECK(write((int)(long)arg, &five, 8) == 8);
    return NULL;
}

static void with_later(int fd, int (*wait)(void)) {
    pthread_t thread;
    uint64_t value = 0;
    CHECK0(pthread_create(&thread, NULL, later, (void *)(long)fd));
    CHECK(wait() == 1);
    CHECK(read(fd == pipes[1] ? pipes[0] : fd, &value, 8) == 8 && value == 5);
    CHECK0(pthread_join(thread, NULL));
}

static int by_poll(void) {
    struct pollfd p = {pipes[0], POLLIN, 0};
    return poll(&p, 1, -1) == 1 && p.revents == POLLIN;
}
static int by_select(void) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(event, &set);
    return select(event + 1, &set, NULL, NULL, NULL) == 1 && FD_ISSET(event, &set);
}
static int by_ppoll(void) {
    struct pollfd p = {event, POLLIN, 0};
    struct timespec limit = {1000, 0};
    return ppoll(&p, 1, &limit, NULL) == 1 && p.revents == POLLIN;
}

int main(void) {
    CHECK(pipe2(pipes, O_CLOEXEC) == 0);
    event = eventfd(0, 0);
    with_later(pipes[1], by_poll);
    with_later(event, by_select);
    with_later(event, by_ppoll);
    struct pollfd none = {pipes[0], POLLIN, 0};
    CHECK(poll(&none, 1, 1) == 0);

    int ep = epoll_create1(0);
    struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.u64 = 77}, got[4];
    CHECK(ep >= 0 && epoll_ctl(ep, EPOLL_CTL_ADD, pipes[0], &e) == 0);
    CHECK(epoll_ctl(ep, EPOLL_CTL_ADD, pipes[0], &e) == -1 && errno == EEXIST);
    CHECK(epoll_wait(ep, got, 4, 0) == 0 && write(pipes[1], "ab", 2) == 2);
    CHECK(epoll_wait(ep, got, 4, -1) == 1 && got[0].data.u64 == 77 && got[0].events == EPOLLIN);
    CHECK(epoll_wait(ep, got, 4, 0) == 0); // edge: told once
    e.events = EPOLLIN | EPOLLONESHOT;
    CHECK(epoll_ctl(ep, EPOLL_CTL_MOD, pipes[0], &e) == 0 && epoll_wait(ep, got, 4, -1) == 1);
    CHECK(epoll_wait(ep, got, 4, 0) == 0 && epoll_ctl(ep, EPOLL_CTL_DEL, pipes[0], NULL) == 0);
    char text[64];
    CHECK(read(pipes[0], text, 64) == 2);

    int semaphore = eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK);
    uint64_t value;
    CHECK(read(semaphore, &value, 8) == 8 && value == 1 && read(semaphore, &value, 8) == 8);
    CHECK(read(semaphore, &value, 8) == -1 && errno == EAGAIN);

    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    int sfd = signalfd(-1, &set, SFD_NONBLOCK);
    struct signalfd_siginfo info;
    CHECK(sfd >= 0 && read(sfd, &info, sizeof info) == -1 && errno == EAGAIN && raise(SIGUSR1) == 0);
    CHECK(read(sfd, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR1 && (pid_t)info.ssi_pid == getpid());

    int memory = memfd_create("scratch", MFD_CLOEXEC), other = memfd_create("other", 0);
    CHECK(memory >= 0 && write(memory, "hello, kernel copies", 20) == 20);
    off_t at = 7;
    loff_t from = 0, to = 100;
    CHECK(sendfile(pipes[1], memory, &at, 6) == 6 && at == 13);
    int second[2];
    CHECK(pipe(second) == 0 && tee(pipes[0], second[1], 100, 0) == 6);
    CHECK(splice(pipes[0], NULL, other, &to, 100, 0) == 6 && to == 106);
    CHECK(read(second[0], text, 64) == 6 && memcmp(text, "kernel", 6) == 0);
    CHECK(pread(other, text, 64, 100) == 6 && memcmp(text, "kernel", 6) == 0);
    to = 0;
    CHECK(copy_file_range(memory, &from, other, &to, 5, 0) == 5 && pread(other, text, 5, 0) == 5);
    CHECK(memcmp(text, "hello", 5) == 0 && fcntl(pipes[0], F_GETPIPE_SZ) >= 4096);

    CHECK(signal(SIGPIPE, SIG_IGN) != SIG_ERR && close(second[0]) == 0);
    CHECK(write(second[1], "x", 1) == -1 && errno == EPIPE);
    CHECK(fcntl(pipes[1], F_SETFL, O_NONBLOCK) == 0);
    long filled = 0;
    static char block[4096];
    ssize_t n;
    while ((n = write(pipes[1], block, sizeof block)) > 0) filled += n;
    CHECK(errno == EAGAIN && filled >= 4096);
    CHECK(close(pipes[1]) == 0);
    while ((n = read(pipes[0], block, sizeof block)) > 0) filled -= n;
    CHECK(n == 0 && filled == 0);
    struct pollfd hung = {pipes[0], POLLIN, 0};
    CHECK(poll(&hung, 1, -1) == 1 && hung.revents == POLLHUP);
    return ok();
}
