// relive: output=exact
// A socket's time limit (SO_RCVTIMEO, SO_SNDTIMEO) makes every call that waits on it end with
// EINTR when a handler interrupts it, SA_RESTART or not: also those that are not made for sockets.
#include "check.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>

static int fds[2], ends[2], file, times;
static char bytes[65536];
static struct iovec part = {bytes, sizeof bytes};

static ssize_t reads(void) { return preadv2(fds[0], &part, 1, -1, 0); }
static ssize_t splices_in(void) { return splice(fds[0], NULL, ends[1], NULL, 100, 0); }
static ssize_t writes(void) { return pwritev2(fds[0], &part, 1, -1, 0); }
static ssize_t sends(void) {
    off_t start = 0;
    return sendfile(fds[0], file, &start, 4096);
}
static ssize_t splices_out(void) { return splice(ends[0], NULL, fds[0], NULL, 100, 0); }

// Ends a call that was made again.
static void on_alarm(int sig) {
    (void)sig;
    if (++times == 2) shutdown(fds[0], SHUT_RDWR);
}

static void interrupted(const char *name, ssize_t (*call)(void), int option, int fills) {
    struct timeval limit = {1000, 0};
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    CHECK(setsockopt(fds[0], SOL_SOCKET, option, &limit, sizeof limit) == 0);
    if (fills)
        while (send(fds[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0) {}
    struct itimerval soon = {{0, 50000}, {0, 50000}}, never = {{0, 0}, {0, 0}};
    times = 0;
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    ssize_t result = call();
    int error = errno;
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    printf("%s: %zd %s\n", name, result, result < 0 ? strerror(error) : "");
    close(fds[0]), close(fds[1]);
}

int main(void) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    CHECK(pipe(ends) == 0 && write(ends[1], bytes, 1000) == 1000);
    file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && write(file, bytes, 4096) == 4096);
    interrupted("preadv2", reads, SO_RCVTIMEO, 0);
    interrupted("splice from a socket", splices_in, SO_RCVTIMEO, 0);
    interrupted("pwritev2", writes, SO_SNDTIMEO, 1);
    interrupted("sendfile", sends, SO_SNDTIMEO, 1);
    interrupted("splice to a socket", splices_out, SO_SNDTIMEO, 1);
    return ok();
}
